"""What is measured of a stack of layers: one entry each in `QUANTITIES`.

An entry is all that a new quantity needs: it is recorded for every family of matrices, gets its place in the
store, the summary and the reference in docs/metrics.md, and the tests ask for its oracle.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.geometry.continuity import (
    adjacent_cosines,
    best_match_alignment,
    cosine_matrix,
    effective_rank,
    frobenius_norm,
    full_alignment,
    gram_alignment,
    index_matched_alignment,
    stable_rank,
    subspace_overlap,
    symmetric_alignment,
)
from geocont_jax.geometry.spectra import Method, Spectrum, at_precision, decompose, degenerate_gap, is_finite

PAPER = "arXiv 2605.04971"


class Layers(NamedTuple):
    """A stack of matrices (..., layer, d_out, d_in), non-finite ones all NaN, and its spectrum."""

    matrices: Array
    spectrum: Spectrum


@dataclass(frozen=True)
class Quantity:
    """What is measured: `function` maps `Layers` to an array whose last axes are `axes`.

    `null` names its null distribution in `geometry.null`, with `k` for overlaps. `latest_only` is kept of the
    latest record alone. `needs` says how many singular triplets it takes.
    """

    function: Callable[[Layers], Array]
    axes: tuple[str, ...]
    description: str
    formula: str
    source: str = ""
    null: str | None = None
    k: int | None = None
    latest_only: bool = False
    needs: float = 2
    dtype: type = np.float32


def measure_stack(matrices: Array) -> dict[str, Array]:
    """Return every quantity of a stack of layers, by name.

    Shapes: `matrices` (..., layer, d_out, d_in); results (..., *axes) with pair one shorter than layer.

    >>> import jax, jax.numpy as jnp
    >>> found = measure_stack(jax.random.normal(jax.random.key(0), (4, 8, 8)))
    >>> found["v1_cosine"].shape, found["effective_rank"].shape, found["v1_matrix"].shape
    ((3,), (4,), (4, 4))
    """
    return measure_layers(decompose_layers(matrices))


def decompose_layers(matrices: Array, method: Method = "exact") -> Layers:
    """Return a stack of matrices (..., layer, d_out, d_in) with its spectrum, by one stacked decomposition."""
    matrices = at_precision(matrices)
    return Layers(blank_broken(matrices), decompose(matrices, method))


def blank_broken(matrices: Array) -> Array:
    """Return matrices (..., d_out, d_in) with those that are not finite all NaN."""
    return jnp.where(is_finite(matrices)[..., None, None], matrices, jnp.nan)


def measure_layers(layers: Layers, triplets: float = math.inf) -> dict[str, Array]:
    """Return every quantity that needs no more than so many triplets of layers that were decomposed before, by name."""
    return {name: quantity.function(layers) for name, quantity in quantities_of(triplets).items()}


def quantities_of(triplets: float) -> dict[str, Quantity]:
    """Return the quantities that can be had of so many leading singular triplets."""
    return {name: quantity for name, quantity in QUANTITIES.items() if quantity.needs <= triplets}


def _both_sound(layers: Layers, values: Array) -> Array:
    """Blank the pairs (..., pair) of which a layer has no leading direction: its spectrum has no order to match."""
    sound = layers.spectrum.is_sound
    return jnp.where(sound[..., :-1] & sound[..., 1:], values, jnp.nan)


def _alignment(function: Callable[[Array, Array], Array], side: str, layers: Layers) -> Array:
    return _both_sound(layers, function(getattr(layers.spectrum, side), layers.spectrum.s))


def _full(side: str, layers: Layers) -> Array:
    """Return the full double sum: of a whole spectrum, whose products are there already, or of Gram matrices."""
    if layers.spectrum.s.shape[-1] == min(layers.matrices.shape[-2:]):
        return full_alignment(getattr(layers.spectrum, side), layers.spectrum.s)
    return gram_alignment(layers.matrices if side == "v" else jnp.swapaxes(layers.matrices, -1, -2))


def _overlap(k: int, side: str, layers: Layers) -> Array:
    spectrum = layers.spectrum
    if k >= spectrum.s.shape[-1]:
        return jnp.full((*spectrum.s.shape[:-2], spectrum.s.shape[-2] - 1), jnp.nan)
    overlap = subspace_overlap(getattr(spectrum, side)[..., :k, :])
    # Written so that a NaN gap (a zero or non-finite matrix) counts as none.
    simple = spectrum.gap(k) >= degenerate_gap(*layers.matrices.shape[-2:])
    return jnp.where(simple[..., :-1] & simple[..., 1:], jnp.minimum(overlap, 1.0), jnp.nan)


def _of_side(side: str, name: str) -> dict[str, Quantity]:
    """Return the quantities of the right (v) or left (u) singular vectors."""
    s, other = side, "l+1"
    alignments = {
        "": (index_matched_alignment, "index-matched", f"sum_i p_i^l |{s}_i^l . {s}_i^{other}|", "alignment"),
        "_symmetric": (
            symmetric_alignment, "index-matched, weights of both layers",
            f"sum_i (p_i^l + p_i^{other})/2 |{s}_i^l . {s}_i^{other}|", "alignment",
        ),
        "_best": (
            best_match_alignment, "best match", f"sum_i p_i^l max_j:s_j>0 |{s}_i^l . {s}_j^{other}|", "alignment_best",
        ),
    }  # fmt: skip
    gram = "W^T W" if side == "v" else "W W^T"
    return {
        f"{side}1_cosine": Quantity(
            lambda layers: adjacent_cosines(getattr(layers.spectrum, f"{side}1")), ("pair",),
            f"|cos| of adjacent layers' leading {name} singular vectors", f"|{s}_1^l . {s}_1^{other}|",
            f"{PAPER}, Eq. 1", "cosine",
        ),
        **{
            f"{side}_alignment{suffix}": Quantity(
                partial(_alignment, function, side), ("pair",),
                f"sigma^2-weighted alignment of adjacent layers' {name} singular vectors, {reading}",
                f"{formula}, p_i = s_i^2 / sum_j s_j^2", f"{PAPER}, Eq. 2", null, needs=math.inf,
            )
            for suffix, (function, reading, formula, null) in alignments.items()
        },
        f"{side}_alignment_full": Quantity(
            partial(_full, side), ("pair",),
            f"sigma^2-weighted alignment of adjacent layers' {name} singular vectors, full double sum",
            f"sum_ij p_i^l p_j^{other} ({s}_i^l . {s}_j^{other})^2 = <G_l, G_{other}> / (tr G_l tr G_{other}), "
            f"G = {gram}",
            f"{PAPER}, Eq. 2", "alignment_full",
        ),
        **{
            f"{side}_overlap{k}": Quantity(
                partial(_overlap, k, side), ("pair",),
                f"share of the space of the leading {k} {name} singular vectors that adjacent layers have in common",
                f"|{s.upper()}_k^T {s.upper()}_k'|_F^2 / k, k = {k}", "", "overlap", k, needs=k + 1,
            )
            for k in (1, 4, 16)
        },
        f"{side}1_matrix": Quantity(
            lambda layers: cosine_matrix(getattr(layers.spectrum, f"{side}1")), ("layer", "other_layer"),
            f"|cos| of the leading {name} singular vectors of every two layers", f"|{s}_1^l . {s}_1^m|",
            f"{PAPER}, Eq. 1", "cosine", latest_only=True,
        ),
    }  # fmt: skip


QUANTITIES: dict[str, Quantity] = {
    **_of_side("v", "right"),
    **_of_side("u", "left"),
    "gap": Quantity(
        lambda layers: layers.spectrum.gap(), ("layer",), "relative spectral gap", "(s_1 - s_2) / s_1"
    ),
    "effective_rank": Quantity(
        lambda layers: effective_rank(layers.spectrum.s), ("layer",), "effective rank",
        "exp(-sum_i p_i log p_i), p_i = s_i^2 / sum_j s_j^2", f"{PAPER}, Eq. 3", needs=math.inf,
    ),
    "stable_rank": Quantity(
        lambda layers: stable_rank(frobenius_norm(layers.matrices), layers.spectrum.s[..., 0]), ("layer",),
        "stable rank", "|W|_F^2 / s_1^2",
    ),
    "spectral_norm": Quantity(lambda layers: layers.spectrum.s[..., 0], ("layer",), "spectral norm", "s_1"),
    "defect": Quantity(
        lambda layers: layers.spectrum.defect, ("layer",),
        "why v1 and u1 mean nothing (0: they do; 1 zero matrix, 2 degenerate, 3 non-finite, 4 no convergence)", "",
        dtype=np.int8,
    ),
}  # fmt: skip
"""Every quantity by its name in the records, behind the family's: `weight_v1_cosine`."""
