"""Rotations of the residual stream: what they leave of the function, for every activation and norm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax import InputError
from geocont_jax.geometry.quantities import QUANTITIES, measure_stack
from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.norms import NORMS
from geocont_jax.symmetry.rotation import (
    function_change,
    random_rotations,
    random_rotations_about,
    rotate_layers,
    rotate_stream,
)
from tests.symmetry.argument import COMMUTES, NORM_COMMUTES, ROUNDING, random_params, rotation_errors

# What does not commute with rotations changes the outputs by a tenth of the largest at least; 0.28 is the least seen.
MARGIN = 0.1


def unchanged(errors):
    return max(errors) < ROUNDING


def changed(errors):
    return min(errors) > MARGIN


@pytest.fixture(scope="module")
def rotations():
    return np.asarray(random_rotations(jax.random.key(3), 4, 3000), np.float64)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_a_rotation_changes_the_function_unless_activation_and_norm_commute_with_it(activation, norm, bias):
    errors = rotation_errors(activation, norm, bias)
    if COMMUTES[activation] and NORM_COMMUTES[norm]:
        assert unchanged(errors.shared)
        assert unchanged(errors.independent_without_skip)
    else:
        assert changed(errors.shared)
        assert changed(errors.independent_without_skip)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_skip_path_forbids_a_rotation_of_its_own_for_each_layer(activation, norm):
    assert changed(rotation_errors(activation, norm).independent)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_norm_commutes_with_rotations_that_fix_the_mean(activation, norm):
    errors = rotation_errors(activation, norm).shared_about_ones
    assert unchanged(errors) if COMMUTES[activation] else changed(errors)


def test_rotating_turns_the_papers_matrices_as_the_formula_says():
    with jax.enable_x64():
        params = random_params(6, 4, 3, 2, bias=True)
        first, second, third = turns = random_rotations(jax.random.key(0), 4, 3)
        rotated = rotate_layers(params, turns)
        for layer, (behind, before) in enumerate([(second, first), (third, second)]):
            expected = behind @ params["hidden_kernel"][layer].T @ before.T
            np.testing.assert_allclose(rotated["hidden_kernel"][layer].T, expected, atol=1e-14)
            np.testing.assert_allclose(rotated["hidden_bias"][layer], behind @ params["hidden_bias"][layer], atol=1e-14)
        np.testing.assert_allclose(rotated["input_kernel"].T, first @ params["input_kernel"].T, atol=1e-14)
        np.testing.assert_allclose(rotated["input_bias"], first @ params["input_bias"], atol=1e-14)
        np.testing.assert_allclose(rotated["output_kernel"].T, params["output_kernel"].T @ third.T, atol=1e-14)
        np.testing.assert_array_equal(rotated["output_bias"], params["output_bias"])


def test_a_shared_rotation_cannot_touch_continuity():
    """It turns the singular vectors of all layers alike: what adjacent layers have in common stays."""
    params = random_params(6, 12, 5, 4)
    turns = random_rotations(jax.random.key(5), 12, 5)
    measure = jax.jit(measure_stack)
    before, shared, apart = (
        measure(jnp.swapaxes(jnp.asarray(kernels, jnp.float32), 1, 2))
        for kernels in (
            params["hidden_kernel"],
            rotate_stream(params, turns[0])["hidden_kernel"],
            rotate_layers(params, turns)["hidden_kernel"],
        )
    )
    for name, quantity in QUANTITIES.items():
        # float32 rounding of vectors whose gaps are a percent or so of s_1: sqrt(d) eps / gap.
        np.testing.assert_allclose(shared[name], before[name], atol=2e-4, err_msg=name)
        if quantity.null == "cosine":
            assert np.abs(apart[name] - before[name]).max() > 0.1, name


def test_rotations_compose():
    with jax.enable_x64():
        params = random_params(6, 4, 3, 2, bias=True)
        one, other = random_rotations(jax.random.key(1), 4, 2)
        twice, at_once = rotate_stream(rotate_stream(params, one), other), rotate_stream(params, other @ one)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), twice, at_once)


def test_rotations_that_do_not_fit_are_refused():
    params = random_params(6, 4, 3, 2)
    with pytest.raises(InputError, match=r"2 layers of 4; give \(3, 4, 4\)"):
        rotate_layers(params, jnp.zeros((2, 4, 4)))
    with pytest.raises(InputError, match="give"):
        rotate_stream(params, jnp.eye(5))


def test_random_rotations_are_rotations(rotations):
    np.testing.assert_allclose(
        rotations @ rotations.swapaxes(1, 2), np.broadcast_to(np.eye(4), (3000, 4, 4)), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.det(rotations), 1.0, atol=1e-5)


def test_random_rotations_are_uniform(rotations):
    """Haar on SO(4): entries have mean 0 and E x^2 = 1/4, E x^4 = 3/(4 6), and are uncorrelated; the trace has sd 1."""
    count = len(rotations)
    for power, mean in ((1, 0.0), (2, 1 / 4), (4, 3 / 24)):
        powers = rotations**power
        # Five standard errors, for the largest of sixteen entries.
        assert (np.abs(powers.mean(axis=0) - mean) < 5 * powers.std(axis=0) / np.sqrt(count)).all()
    correlations = np.corrcoef(rotations.reshape(count, 16).T) - np.eye(16)
    assert np.abs(correlations).max() < 5 / np.sqrt(count)
    traces = np.trace(rotations, axis1=1, axis2=2)
    assert abs(traces.var() - 1) < 5 * np.std(traces**2) / np.sqrt(count)


@pytest.mark.parametrize("direction", [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-2.0, 0.5, 3.0]])
def test_rotations_about_a_direction_fix_it_and_nothing_else(direction):
    direction = jnp.array(direction)
    found = np.asarray(random_rotations_about(jax.random.key(2), direction, 4), np.float64)
    np.testing.assert_allclose(found @ direction, np.broadcast_to(direction, (4, 3)), atol=1e-5)
    np.testing.assert_allclose(found @ found.swapaxes(1, 2), np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-5)
    np.testing.assert_allclose(np.linalg.det(found), 1.0, atol=1e-5)
    assert (np.abs(found - np.eye(3)).max(axis=(1, 2)) > 0.01).all()


def test_function_change_is_relative_to_the_largest_output():
    def apply(params, x):
        return x * params["a"]

    x = jnp.array([[1.0, -4.0]])
    assert function_change(apply, {"a": 2.0}, {"a": 2.0}, x) == 0.0
    assert function_change(apply, {"a": 2.0}, {"a": -2.0}, x) == 2.0
    assert np.isnan(function_change(apply, {"a": 0.0}, {"a": 0.0}, x))
