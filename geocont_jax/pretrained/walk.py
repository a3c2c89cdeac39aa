"""Through a checkpoint, matrix by matrix: each is read, measured with the one before it, kept, and forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from geocont_jax.errors import InputError
from geocont_jax.geometry.heads import head_directions
from geocont_jax.geometry.quantities import Layers
from geocont_jax.geometry.shared_basis import own_energy, shared_energy, side_gram, unrelated_energy
from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.dataset import assemble
from geocont_jax.pretrained.parts import FIRST, Parts
from geocont_jax.pretrained.projections import PROJECTIONS, SIDES
from geocont_jax.pretrained.roles import MatrixRef, PretrainedModel, read_matrix
from geocont_jax.pretrained.streaming import decompose_matrix, measure_next
from geocont_jax.progress import Reporter

UNRELATED_SEED = 0
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

Window = tuple[MatrixRef, ...]


@dataclass(frozen=True)
class Options:
    """What of a checkpoint is measured, and how.

    `layers` from the first number to before the second; `top_k` leading vectors are kept of each matrix; layers up
    to `max_gap` apart are compared; `window` layers share a basis (0: none); `dtype` is that of the computation.
    """

    projections: tuple[str, ...] = PROJECTIONS
    layers: tuple[int, int] | None = None
    top_k: int = 16
    max_gap: int | None = None
    window: int = 4
    per_head: bool = False
    fold_norms: bool = False
    dtype: str = "float32"

    def computation(self) -> dict[str, Any]:
        """Return the options that change what is computed of a matrix."""
        names = ("top_k", "window", "per_head", "fold_norms", "dtype")
        return {name: getattr(self, name) for name in names}


def select(model: PretrainedModel, options: Options) -> PretrainedModel:
    """Return the model with the matrices that the options ask for; raises InputError where there are none."""
    start, stop = options.layers or (0, model.num_layers)
    if not 0 <= start < stop <= model.num_layers:
        raise InputError(f"--layers {start}:{stop}: {model.name} has layers 0 to {model.num_layers - 1}")
    missing = [name for name in options.projections if name not in model.matrices]
    if missing and options.projections != PROJECTIONS:
        raise InputError(f"--projections {','.join(missing)}: {model.name} has only {', '.join(model.matrices)}")
    chosen = {
        name: tuple(ref for ref in refs if start <= ref.layer < stop)
        for name, refs in model.matrices.items()
        if name in options.projections
    }
    chosen = {name: refs for name, refs in chosen.items() if refs}
    if not chosen:
        raise InputError(f"{model.name}: none of {', '.join(options.projections)} in layers {start} to {stop - 1}")
    return model.with_matrices(chosen)


def analyze(
    checkpoint: Checkpoint, model: PretrainedModel, options: Options, out: Path, reporter: Reporter
) -> xr.Dataset:
    """Measure the model's matrices and return all that was found, with what `out` held already.

    Raises InputError where `out` holds an analysis of another checkpoint or with other options, and where a matrix
    cannot be read.
    """
    parts = Parts(out, {"checkpoint": checkpoint_identity(checkpoint), **options.computation()})
    todo = [(name, ref) for name, ref, before in _matrices(model) if not parts.has_layer(name, ref.layer, before)]
    total = sum(map(len, model.matrices.values()))
    if len(todo) < total:
        reporter.say(f"{out}: {total - len(todo)} of {total} matrices are done already")
    if todo:
        reporter.start(len(todo), "matrices")
    try:
        for name in model.matrices:
            _walk(checkpoint, model, name, options, parts, reporter)
    finally:
        reporter.stop()
    parts.delete_carry()
    shared = {name: list(windows(refs, options.window)) for name, refs in model.matrices.items()}
    return assemble(parts, model, shared, options.max_gap).assign_attrs(format=checkpoint.format, window=options.window)


def checkpoint_identity(checkpoint: Checkpoint) -> list[list[Any]]:
    """Return names, sizes and times of the checkpoint's files: other ones are another checkpoint."""
    files = sorted({info.file for info in checkpoint.tensors.values()})
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def layer_before(refs: tuple[MatrixRef, ...], place: int) -> int:
    """Return the layer that a matrix makes a pair with, `FIRST` where the one before it has no such matrix."""
    adjacent = place > 0 and refs[place - 1].layer == refs[place].layer - 1
    return refs[place - 1].layer if adjacent else FIRST


def windows(refs: Window, size: int) -> Iterator[Window]:
    """Cut the layers into windows; a last one that is shorter than two layers shares nothing and is left out."""
    for first in range(0, len(refs), size) if size else ():
        window = refs[first : first + size]
        if len(window) > 1:
            yield window


def _matrices(model: PretrainedModel) -> Iterator[tuple[str, MatrixRef, int]]:
    for name, refs in model.matrices.items():
        for place, ref in enumerate(refs):
            yield name, ref, layer_before(refs, place)


def _walk(
    checkpoint: Checkpoint, model: PretrainedModel, name: str, options: Options, parts: Parts, reporter: Reporter
) -> None:
    """Measure the layers of one projection in turn, and the shared bases of each window when its last is there."""
    refs = model.matrices[name]
    grams: dict[int, Array] = {}
    by_head = options.per_head and name in model.heads
    latest: tuple[int, Layers] | None = None
    ends = {window[-1].layer: window for window in windows(refs, options.window)}
    for place, ref in enumerate(refs):
        before = layer_before(refs, place)
        if not parts.has_layer(name, ref.layer, before):
            if before == FIRST:
                previous = None
            elif latest is not None and latest[0] == before:
                previous = latest[1]
            else:
                previous = _take_up(checkpoint, refs[place - 1], options, parts)
            matrix = _read(checkpoint, ref, options)
            latest = ref.layer, decompose_matrix(matrix)
            measured = measure_next(previous, latest[1], options.top_k)
            heads = {"heads": head_directions(split_heads(matrix, model.heads[name], name))} if by_head else {}
            parts.write_layer(name, ref.layer, before, measured, **heads)
            parts.write_carry(name, ref.layer, latest[1].spectrum)
            if options.window:
                grams[ref.layer] = _gram(jnp.asarray(matrix), SIDES[name])
            reporter.advance(1)
        if ref.layer in ends:
            _share(checkpoint, ends[ref.layer], grams, options, parts, first=ends[ref.layer][0] is refs[0])
            grams = {}


def _share(
    checkpoint: Checkpoint, window: Window, grams: dict[int, Array], options: Options, parts: Parts, first: bool
) -> None:
    """Keep the energy that one basis keeps of a window's layers; those measured before the last stop are read again.

    What a basis that was fitted to unrelated layers keeps is drawn for the first window alone: it differs little.
    """
    name, layers = window[0].projection, tuple(ref.layer for ref in window)
    if parts.has_window(name, layers):
        return
    side = SIDES[name]
    sizes = {ref.shape[1] if side == "v" else ref.shape[0] for ref in window}
    if len(sizes) > 1:  # layers of different widths have no space in common
        return
    for ref in window:
        if ref.layer not in grams:
            grams[ref.layer] = _gram(jnp.asarray(_read(checkpoint, ref, options)), side)
    stack = jnp.stack([grams[layer] for layer in layers])
    values = jnp.stack([jnp.asarray(parts.read_layer(name, layer)["s"]) for layer in layers])
    energies = _energies(stack, values)
    if first:
        energies["unrelated"] = unrelated_energy(values, stack.shape[-1], jax.random.key(UNRELATED_SEED))
    ranks = np.array([rank for rank in RANKS if rank <= stack.shape[-1]])
    kept = {kind: np.asarray(shares)[:, ranks - 1] for kind, shares in energies.items()}
    parts.write_window(name, layers, {"ranks": ranks, "random": ranks / stack.shape[-1], **kept})


_gram = partial(jax.jit, static_argnames="side")(side_gram)


@jax.jit
def _energies(grams: Array, values: Array) -> dict[str, Array]:
    return {"shared": shared_energy(grams), "own": own_energy(values, grams.shape[-1])}


def split_heads(matrix: np.ndarray, heads: tuple[int, int], projection: str) -> np.ndarray:
    """Return a matrix head by head, each as (head_dim, d) with d the residual stream's: (head, head_dim, d)."""
    num_heads, head_dim = heads
    facing = matrix.T if SIDES[projection] == "u" else matrix
    return facing.reshape(num_heads, head_dim, -1)


def _read(checkpoint: Checkpoint, ref: MatrixRef, options: Options) -> np.ndarray:
    return read_matrix(checkpoint, ref, options.fold_norms).astype(options.dtype)


def _take_up(checkpoint: Checkpoint, ref: MatrixRef, options: Options, parts: Parts) -> Layers:
    """Return the layer before the first that is missing: an interrupted analysis has left its spectrum."""
    matrix = _read(checkpoint, ref, options)
    return parts.read_carry(ref.projection, ref.layer, matrix) or decompose_matrix(matrix)
