"""What an analysis will do, before it does anything: which tensors play which part, how much memory, how long."""

import time
from collections.abc import Sequence

import numpy as np

from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.projections import SIDES
from geocont_jax.pretrained.roles import MatrixRef, PretrainedModel
from geocont_jax.pretrained.walk import Options, is_small
from geocont_jax.progress import duration

SIDE_WORDS = {"v": "input (v1)", "u": "output (u1)"}


# What is alive at the worst moment, counted in the code of `streaming` and `bases`: W, u and v of two layers and once
# more as a stack, products of the quantities, and sums of Gram matrices with those of the layer at hand. Of small
# matrices there is one more layer, which is decomposed ahead.
STACKED_LAYERS = 4
WORK_SQUARES = 8
BASES_SQUARES = 4


def describe(checkpoint: Checkpoint, model: PretrainedModel, options: Options) -> str:
    """Return what would be measured, with shapes, memory and time; nothing but the headers has been read."""
    refs = [ref for of in model.matrices.values() for ref in of]
    types = sorted({checkpoint.tensors[ref.tensor].dtype for ref in refs})
    layers = sorted({ref.layer for ref in refs})
    lines = [
        f"{model.name}: {model.architecture}, {checkpoint.format} ({', '.join(types)}), "
        f"layers {layers[0]} to {layers[-1]} of {model.num_layers}, hidden size {model.hidden_size}",
        "",
        *_pairs(model),
        "",
        f"{len(refs)} matrices, {sum(_size(ref) for ref in refs) / 1e6:,.1f} million weights; "
        f"about {_bytes(peak_bytes(refs, options))} of memory at the peak beside JAX itself, "
        f"about {duration(expected_seconds(refs))} on a CPU core",
    ]
    return "\n".join([*lines, *(f"note: {note}" for note in model.notes)])


def _pairs(model: PretrainedModel) -> list[str]:
    head = ("projection", "matrices", "shape (out, in)", "residual side", "first tensor")
    rows = [head]
    for name, refs in model.matrices.items():
        shapes = " and ".join(dict.fromkeys(f"{ref.shape[0]} x {ref.shape[1]}" for ref in refs))
        rows.append((name, str(len(refs)), shapes, SIDE_WORDS[SIDES[name]], refs[0].tensor))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def peak_bytes(refs: Sequence[MatrixRef], options: Options) -> int:
    """Return about how much memory the largest matrix takes at the worst moment, with its neighbour.

    A layer is W and the vectors of both sides, `2 m n + r^2` numbers for an m x n matrix and r = min(m, n). Shared
    bases take sums of Gram matrices of the residual side.
    """
    item = np.dtype(options.dtype).itemsize

    def of(ref: MatrixRef) -> int:
        small, large = sorted(ref.shape)
        layer = 2 * small * large + small * small
        layers = STACKED_LAYERS + is_small(ref, options)
        return item * (layers * layer + WORK_SQUARES * small * small + BASES_SQUARES * ref.residual_size**2)

    return max(map(of, refs))


def expected_seconds(refs: Sequence[MatrixRef]) -> float:
    """Return about how long the refs take on one core of this machine, from two short trials.

    The eigenvectors of a Gram matrix of side r cost about r^3, its products about 8 r^2 (m + n).
    """
    eigenvectors, product = _seconds_per_flop()
    total = 0.0
    for ref in refs:
        small = min(ref.shape)
        total += eigenvectors * small**3 + product * 8 * small**2 * sum(ref.shape)
    return total


def _seconds_per_flop(side: int = 256) -> tuple[float, float]:
    matrix = np.random.default_rng(0).normal(size=(side, side)).astype(np.float32)
    gram = matrix @ matrix.T
    began = time.perf_counter()
    np.linalg.eigh(gram)
    between = time.perf_counter()
    for _ in range(8):
        matrix @ gram
    ended = time.perf_counter()
    return (between - began) / side**3, (ended - between) / (8 * 2 * side**3)


def _size(ref: MatrixRef) -> int:
    return ref.shape[0] * ref.shape[1]


def _bytes(number: float) -> str:
    """Return a number of bytes for people.

    >>> _bytes(3_400_000), _bytes(5.2e9)
    ('3 MiB', '4.8 GiB')
    """
    return f"{number / 2**20:,.0f} MiB" if number < 2**30 else f"{number / 2**30:,.1f} GiB"
