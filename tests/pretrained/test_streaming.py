"""Two layers at a time give what the whole stack gives."""

import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax.geometry.quantities import measure_stack
from geocont_jax.pretrained.parts import FIRST, Parts
from geocont_jax.pretrained.streaming import LAYER_QUANTITIES, PAIR_QUANTITIES, decompose_matrix, measure_next


def walk(matrices, top_k=4):
    previous, found = None, []
    for matrix in matrices:
        current = decompose_matrix(matrix)
        found.append(measure_next(previous, current, top_k))
        previous = current
    return found


def planted(num_layers, d_out, d_in, seed=0):
    rng = np.random.default_rng(seed)
    common = np.outer(rng.normal(size=d_out), rng.normal(size=d_in)) / np.sqrt(d_out)
    return (rng.normal(size=(num_layers, d_out, d_in)) + common).astype(np.float32)


@pytest.mark.parametrize(("d_out", "d_in"), [(20, 20), (20, 34)])
def test_the_walk_agrees_with_the_stack(d_out, d_in):
    matrices = planted(3, d_out, d_in)
    found, stack = walk(matrices), measure_stack(jnp.asarray(matrices))
    for name in LAYER_QUANTITIES:
        np.testing.assert_allclose([one.of_layer[name] for one in found], stack[name], rtol=2e-4, atol=2e-5)
    for name in PAIR_QUANTITIES:
        if name in stack:
            np.testing.assert_allclose([one.of_pair[name] for one in found[1:]], stack[name], rtol=2e-3, atol=1e-4)
    assert found[0].of_pair == {}
    flat = [m.ravel() / np.linalg.norm(m) for m in matrices.astype(np.float64)]
    np.testing.assert_allclose(found[1].of_pair["matrix_cosine"], flat[0] @ flat[1], atol=1e-5)
    assert (found[0].s.shape, found[0].v.shape, found[0].u.shape) == ((20,), (4, d_in), (4, d_out))


def test_a_broken_layer_has_a_reason_and_no_neighbours():
    matrices = planted(3, 12, 12)
    matrices[1, 0, 0] = np.nan
    found = walk(matrices)
    assert [int(one.of_layer["defect"]) for one in found] == [0, 3, 0]
    assert np.isnan(found[1].of_pair["v1_cosine"])
    assert np.isnan(found[2].of_pair["v1_cosine"])


def test_layers_of_other_shapes_are_compared_on_the_side_that_agrees():
    one, other = planted(1, 12, 16)[0], planted(1, 20, 16, seed=1)[0]
    found = walk([one, other])[1].of_pair
    leading = [np.linalg.svd(m)[2][0] for m in (one, other)]
    assert found["v1_cosine"] == pytest.approx(abs(leading[0] @ leading[1]), abs=1e-4)
    assert np.isnan(found["u1_cosine"])
    assert np.isnan(found["v_alignment"])


def test_what_was_kept_is_read_again_and_the_latest_spectrum_taken_up(tmp_path):
    matrices = planted(2, 10, 14)
    parts = Parts(tmp_path, {"checkpoint": "x"})
    layers = [decompose_matrix(matrix) for matrix in matrices]
    parts.write_layer("q", 0, FIRST, measure_next(None, layers[0], 4))
    parts.write_carry("q", 0, layers[0].spectrum)
    again = Parts(tmp_path, {"checkpoint": "x"})
    assert again.has_layer("q", 0, FIRST)
    assert not again.has_layer("q", 1, 0)
    taken_up = again.read_carry("q", 0, matrices[0])
    one, other = (measure_next(previous, layers[1], 4) for previous in (layers[0], taken_up))
    np.testing.assert_array_equal(one.of_pair["v_alignment"], other.of_pair["v_alignment"])
    assert again.read_carry("q", 1, matrices[1]) is None
    np.testing.assert_array_equal(again.read_layer("q", 0)["s"], measure_next(None, layers[0], 4).s)


def test_a_layer_that_was_measured_without_its_pair_is_not_done(tmp_path):
    parts = Parts(tmp_path, {})
    parts.write_layer("q", 5, FIRST, measure_next(None, decompose_matrix(planted(1, 8, 8)[0]), 4))
    assert parts.has_layer("q", 5, FIRST)
    assert not parts.has_layer("q", 5, 4)
