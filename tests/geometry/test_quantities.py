"""Every quantity against its float64 oracle, against closed forms, and on matrices that have no value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.null import NULLS
from geocont_jax.geometry.quantities import QUANTITIES, measure_stack
from geocont_jax.geometry.spectra import Defect
from tests.oracles_geometry import ORACLES

EPS = float(np.finfo(np.float32).eps)
MEASURE = jax.jit(measure_stack)

# The same few shapes throughout: each is compiled once.
SHAPES = [(3, 24, 24), (3, 20, 28), (3, 28, 20)]
SQUARE = SHAPES[0]

PAIR = [name for name, quantity in QUANTITIES.items() if quantity.axes == ("pair",)]
ALIGNMENTS = [f"{side}_alignment{reading}" for side in "vu" for reading in ("", "_symmetric", "_best")]
FULL = ["v_alignment_full", "u_alignment_full"]
COSINES = ["v1_cosine", "u1_cosine"]
OVERLAPS = [f"{side}_overlap{k}" for side in "vu" for k in (1, 4, 16)]


def measure(matrices):
    """Return all quantities of matrices, given in any precision, as NumPy arrays."""
    return {name: np.asarray(value) for name, value in MEASURE(jnp.asarray(matrices, jnp.float32)).items()}


def random_rotation(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def with_spectrum(rng, values, d_out, d_in):
    """Return a matrix with given singular values and random singular vectors."""
    rank = len(values)
    return random_rotation(rng, d_out)[:, :rank] * values @ random_rotation(rng, d_in)[:, :rank].T


def separated(d_out, d_in, ratio=0.8):
    """Return a geometric spectrum: each gap is a share 1 - ratio of its value."""
    return ratio ** np.arange(min(d_out, d_in))


# Neighbours differ, so that the weights of one layer cannot pass for those of the other.
RATIOS = (0.8, 0.75)


def separated_stack(shape, seed=0):
    """Return layers with geometric spectra of alternating ratio and random singular vectors."""
    layers, d_out, d_in = shape
    rng = np.random.default_rng(seed)
    spectra = [separated(d_out, d_in, RATIOS[layer % 2]) for layer in range(layers)]
    return np.stack([with_spectrum(rng, values, d_out, d_in) for values in spectra])


def sound_layer(d=24):
    """Return a matrix whose every quantity is plain: diagonal, values d..1."""
    return np.diag(np.arange(float(d), 0.0, -1.0))


def test_every_quantity_has_an_oracle():
    assert set(ORACLES) == set(QUANTITIES)


def test_every_quantity_says_what_it_is():
    for name, quantity in QUANTITIES.items():
        assert quantity.axes in (("pair",), ("layer",), ("layer", "other_layer")), name
        assert quantity.description, name
        assert quantity.null is None or quantity.null in NULLS, name
        assert (quantity.k is not None) == (quantity.null == "overlap"), name
        assert quantity.latest_only == (quantity.axes == ("layer", "other_layer")), name


def tolerance(name, shape):
    """Return what float32 does to a quantity of `separated_stack`, with p_i ~ ratio^(2 i).

    Rounding turns v_i by about sqrt(d) eps s_1 / (s_i - s_{i+1}), which a factor 4 covers for two layers; weighted by
    p_i and summed that is at most 4 sqrt(d) eps / (1 - ratio)^2. Values are known to sqrt(d) eps of s_1, a rank to d
    times that. The subspace of an overlap is turned by the gap at k.
    """
    base = 4 * np.sqrt(max(shape[1:])) * EPS
    if "overlap" in name:
        return base / min(ratio ** (QUANTITIES[name].k - 1) * (1 - ratio) for ratio in RATIOS)
    return base * (max(shape[1:]) if "rank" in name else 1 / (1 - max(RATIOS)) ** 2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", QUANTITIES)
def test_agrees_with_its_oracle(name, shape):
    matrices = separated_stack(shape).astype(np.float32)
    found, expected = measure(matrices)[name], ORACLES[name](matrices)
    assert found.shape == expected.shape
    assert found.dtype == QUANTITIES[name].dtype
    np.testing.assert_allclose(found, expected, atol=tolerance(name, shape))


@pytest.mark.parametrize("name", QUANTITIES)
def test_leading_axes_are_batch_axes(name):
    runs = np.stack([separated_stack(SQUARE, seed) for seed in range(4)]).reshape(2, 2, *SQUARE)
    found = measure(runs)[name]
    for i in np.ndindex(2, 2):
        np.testing.assert_allclose(found[i], measure(runs[i])[name], atol=tolerance(name, SQUARE))


def test_identical_layers_are_aligned_throughout():
    found = measure(np.repeat(separated_stack((1, 24, 24)), 3, axis=0))
    for name in [*COSINES, *ALIGNMENTS, *OVERLAPS, "v1_matrix", "u1_matrix"]:
        np.testing.assert_allclose(found[name], 1.0, atol=20 * EPS, err_msg=name)
    p = separated(24, 24) ** 2 / np.sum(separated(24, 24) ** 2)
    for name in FULL:  # only equal directions meet: sum_i p_i^2
        np.testing.assert_allclose(found[name], np.sum(p**2), rtol=1e-5)


@pytest.mark.parametrize("degrees", [0.0, 1e-2, 30.0, 60.0, 90.0])
def test_a_known_rotation_of_v1_gives_its_cosine(degrees):
    """Layer 2 is layer 1 with v_1 and v_3 turned into each other by an angle, u untouched."""
    rng = np.random.default_rng(1)
    values, u, v = separated(24, 24), random_rotation(rng, 24), random_rotation(rng, 24)
    angle, turned = np.deg2rad(degrees), v.copy()
    turned[:, 0] = np.cos(angle) * v[:, 0] + np.sin(angle) * v[:, 2]
    turned[:, 2] = np.cos(angle) * v[:, 2] - np.sin(angle) * v[:, 0]
    found = measure(np.stack([u * values @ v.T, u * values @ turned.T]))
    cosine, p = np.cos(angle), values**2 / np.sum(values**2)
    aligned = 1 - (p[0] + p[2]) * (1 - cosine)
    best = 1 - (p[0] + p[2]) * (1 - max(cosine, np.sin(angle)))
    expected = {
        "v1_cosine": cosine, "u1_cosine": 1.0, "v_overlap1": cosine**2, "v_overlap4": 1.0, "v_overlap16": 1.0,
        "v_alignment": aligned, "v_alignment_symmetric": aligned, "v_alignment_best": best, "u_alignment": 1.0,
        "v_alignment_full": np.sum(p**2) - np.sin(angle) ** 2 * (p[0] - p[2]) ** 2,
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], [value], atol=100 * EPS, err_msg=name)
    np.testing.assert_allclose(found["v1_matrix"], [[1, cosine], [cosine, 1]], atol=100 * EPS)


def test_readings_of_the_alignment_differ_where_spectra_and_order_do():
    """The second layer has the same vectors in the opposite order and a steeper spectrum."""
    found = measure(np.stack([np.diag([2.0, 1.0]), np.diag([1.0, 3.0])]))
    p, q = np.array([0.8, 0.2]), np.array([0.9, 0.1])
    assert found["v_alignment"][0] == found["v_alignment_symmetric"][0] == 0.0
    np.testing.assert_allclose(found["v_alignment_best"], [1.0], rtol=4 * EPS)
    np.testing.assert_allclose(found["v_alignment_full"], [p[0] * q[1] + p[1] * q[0]], rtol=4 * EPS)


def test_the_symmetric_weights_are_those_of_both_layers():
    """v_1 is shared, the rest is not: v_i of one is orthogonal to v_i of the other, i = 2, 3."""
    one, other = np.diag([2.0, 1.0, 0.5]), np.diag([4.0, 0.5, 1.0])
    p, q = 4 / 5.25, 16 / 17.25
    found = measure(np.stack([one, other]))
    np.testing.assert_allclose(found["v_alignment"], [p], rtol=8 * EPS)
    np.testing.assert_allclose(found["v_alignment_symmetric"], [(p + q) / 2], rtol=8 * EPS)
    np.testing.assert_allclose(measure(np.stack([other, one]))["v_alignment"], [q], rtol=8 * EPS)


def test_disjoint_subspaces_have_nothing_in_common():
    """Layer 1 lives on the first 20 coordinates, layer 2 on the last 20, on both sides."""
    values = separated(20, 20)
    one, other = np.zeros((2, 40, 40))
    one[:20, :20] = other[20:, 20:] = np.diag(values)
    found = measure(np.stack([one, other]))
    for name in [*COSINES, *OVERLAPS]:
        assert found[name][0] == 0.0, name
    for name in FULL:  # a weighted mean of squared cosines, each of them 40 products with a rounding
        assert 0.0 <= found[name][0] <= (40 * EPS) ** 2, name
    # Singular vectors with value 0 complete the frames but have no weight. (Only the best match may find one of them.)
    for name in ("v_alignment", "u_alignment", "v_alignment_symmetric", "u_alignment_symmetric"):
        assert found[name][0] == pytest.approx(0.0, abs=EPS), name
    np.testing.assert_array_equal(found["v1_matrix"], np.eye(2))


@pytest.mark.parametrize("rank", [2, 3, 7, 24])
def test_ranks_of_a_projector_are_its_rank(rank):
    projector = np.diag(np.arange(24) < rank) * 3.0
    found = measure(np.stack([projector, projector]))
    np.testing.assert_allclose(found["effective_rank"], rank, rtol=8 * EPS)
    np.testing.assert_allclose(found["stable_rank"], rank, rtol=8 * EPS)
    np.testing.assert_allclose(found["v_alignment_full"], 1 / rank, rtol=8 * EPS)


@pytest.mark.parametrize("ratio", [0.3, 0.9])
def test_ranks_of_a_geometric_spectrum(ratio):
    """With p_i = (1 - a) a^(i-1), a = ratio^2, the entropy is -log(1 - a) - a log(a) / (1 - a), up to a^24."""
    d, a = 200, ratio**2
    found = measure(with_spectrum(np.random.default_rng(2), separated(d, d, ratio), d, d)[None].repeat(2, axis=0))
    entropy = -np.log(1 - a) - a * np.log(a) / (1 - a)
    np.testing.assert_allclose(found["effective_rank"], np.exp(entropy), rtol=1e-4)
    np.testing.assert_allclose(found["stable_rank"], 1 / (1 - a), rtol=1e-5)
    np.testing.assert_allclose(found["spectral_norm"], 1.0, rtol=1e-5)
    np.testing.assert_allclose(found["gap"], 1 - ratio, atol=1e-5)


def test_a_rank_one_matrix_has_ranks_of_one():
    matrix = np.outer(np.arange(1.0, 9.0), np.arange(3.0, 11.0))
    found = measure(np.stack([matrix, 2 * matrix]))
    for name in ("effective_rank", "stable_rank", "gap"):
        np.testing.assert_allclose(found[name], 1.0, rtol=1e-5, err_msg=name)
    for name in [*COSINES, *ALIGNMENTS, *FULL, "v_overlap1", "u_overlap1"]:
        np.testing.assert_allclose(found[name], 1.0, rtol=1e-5, err_msg=name)
    # Beyond the first all singular values are zero, up to rounding: no subspace of four is determined.
    assert np.isnan(found["v_overlap4"]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_full_sum_is_the_normalised_inner_product_of_gram_matrices(shape):
    matrices = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    found = measure(matrices)
    for name, wide in (("v_alignment_full", matrices), ("u_alignment_full", matrices.swapaxes(1, 2))):
        grams = [m.T @ m for m in wide.astype(np.float64)]
        pairs = zip(grams[:-1], grams[1:], strict=True)
        expected = [np.sum(a * b) / (np.trace(a) * np.trace(b)) for a, b in pairs]
        np.testing.assert_allclose(found[name], expected, rtol=20 * EPS)


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_transposing_swaps_the_sides(shape):
    matrices = separated_stack(shape)
    one, other = measure(matrices), measure(matrices.swapaxes(1, 2))
    for name in QUANTITIES:
        swapped = {"v": "u", "u": "v"}.get(name[0], "") + name[1:] if name[:2] in ("v1", "u1", "v_", "u_") else name
        np.testing.assert_allclose(one[name], other[swapped], atol=tolerance(name, shape), err_msg=name)


SCALE_FREE = [name for name in QUANTITIES if name != "spectral_norm"]


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e30])
def test_only_the_norm_depends_on_the_scale(scale):
    matrices = separated_stack(SQUARE, seed=4)
    plain, scaled = measure(matrices), measure(scale * matrices)
    for name in SCALE_FREE:
        np.testing.assert_allclose(scaled[name], plain[name], atol=tolerance(name, SQUARE), err_msg=name)
    np.testing.assert_allclose(scaled["spectral_norm"], scale * plain["spectral_norm"], rtol=1e-5)


@pytest.mark.parametrize("scales", [(1e-30, 1e30), (1e30, 1e-30)])
def test_layers_of_very_different_scale_compare_like_any(scales):
    matrices = separated_stack((2, 24, 24), seed=5)
    plain, scaled = measure(matrices), measure(np.array(scales)[:, None, None] * matrices)
    for name in PAIR:
        np.testing.assert_allclose(scaled[name], plain[name], atol=tolerance(name, (2, 24, 24)), err_msg=name)


def test_half_precision_is_measured_in_single():
    matrices = jnp.asarray(separated_stack(SQUARE), jnp.bfloat16)
    half, single = MEASURE(matrices), MEASURE(matrices.astype(jnp.float32))
    for name, quantity in QUANTITIES.items():
        assert half[name].dtype == quantity.dtype, name
        np.testing.assert_array_equal(half[name], single[name], err_msg=name)


# Matrices that lack something: their defect, and the quantities of a layer that have a value all the same.
D = 24
PERMUTATION = np.eye(D)[np.random.default_rng(6).permutation(D)]
ORTHOGONAL = random_rotation(np.random.default_rng(7), D)
LONE_NAN, LONE_INF = sound_layer(), sound_layer()
LONE_NAN[3, 5], LONE_INF[0, 0] = np.nan, -np.inf
DEFECTIVE = {
    "zero": (np.zeros((D, D)), Defect.ZERO),
    "identity": (np.eye(D), Defect.DEGENERATE),
    "permutation": (PERMUTATION, Defect.DEGENERATE),
    "orthogonal": (ORTHOGONAL, Defect.DEGENERATE),
    "leading tie": (np.diag([30.0, 30.0, *range(D - 2, 0, -1)]), Defect.DEGENERATE),
    "one nan": (LONE_NAN, Defect.NON_FINITE),
    "one inf": (LONE_INF, Defect.NON_FINITE),
    "all inf": (np.full((D, D), np.inf), Defect.NON_FINITE),
}


@pytest.fixture(params=DEFECTIVE)
def defective(request):
    """Return the quantities of the stack sound, sound, bad, sound, sound, of five sound layers, and the defect."""
    bad, defect = DEFECTIVE[request.param]
    good = separated_stack((5, D, D), seed=8)
    stack = good.copy()
    stack[2] = bad
    return measure(stack), measure(good), defect


def test_a_defect_blanks_what_it_touches_and_nothing_else(defective):
    found, good, defect = defective
    assert found["defect"].tolist() == [0, 0, defect, 0, 0]
    for name in [*COSINES, *ALIGNMENTS, "v_overlap1", "u_overlap1"]:
        assert np.isnan(found[name]).tolist() == [False, True, True, False], name
    for name in PAIR:
        np.testing.assert_array_equal(found[name][[0, 3]], good[name][[0, 3]], err_msg=name)
    for name in ("gap", "effective_rank", "stable_rank", "spectral_norm"):
        np.testing.assert_array_equal(found[name][[0, 1, 3, 4]], good[name][[0, 1, 3, 4]], err_msg=name)
    for name in ("v1_matrix", "u1_matrix"):
        blank = np.isnan(found[name])
        assert blank[2].all(), name
        assert blank[:, 2].all(), name
        assert blank.sum() == 9, name


def test_the_full_sum_needs_no_leading_direction(defective):
    found, _, defect = defective
    missing = defect in (Defect.ZERO, Defect.NON_FINITE)
    for name in FULL:
        assert np.isnan(found[name]).tolist() == [False, missing, missing, False], name


def test_ranks_and_norm_need_no_leading_direction(defective):
    found, _, defect = defective
    missing = defect in (Defect.ZERO, Defect.NON_FINITE)
    for name in ("effective_rank", "stable_rank", "gap"):
        assert np.isnan(found[name]).tolist() == [False, False, missing, False, False], name
    assert np.isnan(found["spectral_norm"]).tolist() == [False, False, defect == Defect.NON_FINITE, False, False]
    if defect == Defect.ZERO:
        assert found["spectral_norm"][2] == 0.0


@pytest.mark.parametrize("name", ["identity", "permutation", "orthogonal"])
def test_orthogonal_matrices_have_full_rank_and_a_flat_full_sum(name):
    found = measure(np.stack([DEFECTIVE[name][0], sound_layer()]))
    np.testing.assert_allclose(found["effective_rank"][0], D, rtol=1e-5)
    np.testing.assert_allclose(found["stable_rank"][0], D, rtol=1e-5)
    # Every direction meets an orthogonal matrix alike: the full sum is 1/d, whatever the other layer.
    for side in FULL:
        np.testing.assert_allclose(found[side], 1 / D, rtol=1e-5)


@pytest.mark.parametrize("k", [4, 16])
def test_a_tie_at_k_leaves_no_subspace_of_k(k):
    values = separated(D, D)
    values[k] = values[k - 1]  # s_{k+1} = s_k
    rng = np.random.default_rng(9)
    stack = np.stack([with_spectrum(rng, separated(D, D), D, D), with_spectrum(rng, values, D, D)])
    found = measure(stack)
    for side in "vu":
        for other in (1, 4, 16):
            assert np.isnan(found[f"{side}_overlap{other}"]).all() == (other == k), (side, other)
    assert not np.isnan(found["v1_cosine"]).any()
    assert found["defect"].tolist() == [0, 0]


def test_a_leading_tie_leaves_larger_subspaces_alone():
    tied = DEFECTIVE["leading tie"][0]
    found = measure(np.stack([tied, tied]))
    assert np.isnan(found["v_overlap1"]).all()
    # The two tied vectors are any basis of their plane, which is the same plane.
    np.testing.assert_allclose(found["v_overlap4"], 1.0, rtol=20 * EPS)


@pytest.mark.parametrize(("shape", "defined"), [((2, 4, 9), {1}), ((2, 9, 5), {1, 4}), ((2, 16, 30), {1, 4})])
def test_no_overlap_where_k_is_all_there_is(shape, defined):
    found = measure(separated_stack(shape))
    for k in (1, 4, 16):
        for side in "vu":
            assert np.isnan(found[f"{side}_overlap{k}"]).all() == (k not in defined), (k, side)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_signs_and_shared_rotations_change_nothing(seed):
    rng = np.random.default_rng(seed)
    matrices = separated_stack(SQUARE, seed)
    left, right = random_rotation(rng, 24), random_rotation(rng, 24)
    plain, turned = measure(matrices), measure(-left @ matrices @ right)
    for name in QUANTITIES:
        np.testing.assert_allclose(turned[name], plain[name], atol=tolerance(name, SQUARE), err_msg=name)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), noise=st.floats(0.0, 3.0))
def test_all_shares_and_cosines_lie_between_0_and_1(seed, noise):
    rng = np.random.default_rng(seed)
    matrices = separated_stack((1, 24, 24), seed) + noise * rng.normal(size=SQUARE)
    found = measure(matrices)
    for name in [*PAIR, "v1_matrix", "u1_matrix", "gap"]:
        values = found[name][~np.isnan(found[name])]
        assert ((values >= 0) & (values <= 1 + 20 * EPS)).all(), name  # weights that sum to 1 up to rounding
    for name in ("effective_rank", "stable_rank"):
        assert ((found[name] >= 1) & (found[name] <= 24 * (1 + 20 * EPS))).all(), name
    # The best match is at least as good as the one of the same place.
    for side in "vu":
        assert (found[f"{side}_alignment_best"] >= found[f"{side}_alignment"] - 20 * EPS).all()


def test_nothing_is_differentiated():
    def total(matrices):
        return sum(jnp.sum(value) for value in measure_stack(matrices).values())

    gradient = jax.jit(jax.grad(total))(jnp.asarray(separated_stack((2, 4, 4)), jnp.float32))
    assert not gradient.any()
