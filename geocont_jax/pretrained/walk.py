"""Through a checkpoint, matrix by matrix: each is read, measured with the one before it, kept, and forgotten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr

from geocont_jax.errors import InputError
from geocont_jax.geometry.heads import head_directions
from geocont_jax.geometry.quantities import Layers
from geocont_jax.pretrained.ahead import one_ahead
from geocont_jax.pretrained.bases import WindowSum, add_layer, energies
from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.dataset import assemble
from geocont_jax.pretrained.parts import FIRST, Parts
from geocont_jax.pretrained.projections import PROJECTIONS, SIDES
from geocont_jax.pretrained.roles import MatrixRef, PretrainedModel, read_matrix
from geocont_jax.pretrained.streaming import decompose_matrix, measure_next
from geocont_jax.progress import Reporter

Window = tuple[MatrixRef, ...]

# While a matrix up to this size is measured the next one is decomposed in a thread: LAPACK uses one core, products use
# the others. Of larger ones there is one less in memory, and their spectra are kept for whoever goes on later, which of
# small ones takes as long as decomposing them again.
SMALL_BYTES = 2**25


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
    window: int = 8
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
    steps = {name: list(_steps(refs, options, parts)) for name, refs in model.matrices.items()}
    todo = sum(not step.is_measured for of_projection in steps.values() for step in of_projection)
    total = sum(map(len, model.matrices.values()))
    if todo < total:
        reporter.say(f"{out}: {total - todo} of {total} matrices are done already")
    if todo:
        reporter.start(todo, "matrices")
    try:
        for name in model.matrices:
            _walk(checkpoint, model, steps[name], options, parts, reporter)
    finally:
        reporter.stop()
    parts.delete_carries()
    shared = {name: list(map(layers_of, windows(refs, options.window))) for name, refs in model.matrices.items()}
    return assemble(parts, model, shared, options.max_gap).assign_attrs(format=checkpoint.format, window=options.window)


def checkpoint_identity(checkpoint: Checkpoint) -> list[list[Any]]:
    """Return names, sizes and times of the checkpoint's files: other ones are another checkpoint."""
    files = sorted({info.file for info in checkpoint.tensors.values()})
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def matrix_before(refs: Window, place: int) -> MatrixRef | None:
    """Return what a matrix makes a pair with, None where the layer before has no such matrix."""
    adjacent = place > 0 and refs[place - 1].layer == refs[place].layer - 1
    return refs[place - 1] if adjacent else None


def windows(refs: Window, size: int) -> Iterator[Window]:
    """Cut the layers into windows that can share a basis: of two layers or more, with one size of the residual side."""
    for first in range(0, len(refs), size) if size else ():
        window = refs[first : first + size]
        if len(window) > 1 and len({ref.residual_size for ref in window}) == 1:
            yield window


def layers_of(window: Window) -> tuple[int, ...]:
    """Return the numbers of a window's layers."""
    return tuple(ref.layer for ref in window)


class Step(NamedTuple):
    """What is left to do with a matrix: to measure it with the one before it, to add it to its window's basis."""

    ref: MatrixRef
    before: MatrixRef | None
    is_measured: bool
    window: Window | None


def _steps(refs: Window, options: Options, parts: Parts) -> Iterator[Step]:
    """Yield the layers of one projection with which anything is left to do."""
    name = refs[0].projection
    unshared = [window for window in windows(refs, options.window) if not parts.has_window(name, layers_of(window))]
    window_of = {ref.layer: window for window in unshared for ref in window}
    for place, ref in enumerate(refs):
        before, window = matrix_before(refs, place), window_of.get(ref.layer)
        is_measured = parts.has_layer(name, ref.layer, _number(before))
        if not is_measured or window is not None:
            yield Step(ref, before, is_measured, window)


def _walk(
    checkpoint: Checkpoint,
    model: PretrainedModel,
    steps: Sequence[Step],
    options: Options,
    parts: Parts,
    reporter: Reporter,
) -> None:
    """Measure the layers of one projection in turn, and the shared basis of each window of layers."""
    latest: tuple[int, Layers] | None = None
    total: WindowSum | None = None

    def take(step: Step) -> tuple[np.ndarray, Layers | None]:
        matrix = _read(checkpoint, step.ref, options)
        return matrix, None if step.is_measured else decompose_matrix(matrix)

    all_small = all(is_small(step.ref, options) for step in steps)
    for step, (matrix, layers) in zip(steps, (one_ahead if all_small else map)(take, steps), strict=True):
        name, layer = step.ref.projection, step.ref.layer
        if layers is not None:
            before = _layer_before(latest, checkpoint, step.before, options, parts) if step.before else None
            latest = layer, layers
            measured = measure_next(before, layers, options.top_k)
            parts.write_layer(name, layer, _number(step.before), measured, **_heads(matrix, name, model, options))
            if not all_small:
                parts.write_carry(name, layer, layers.spectrum)
            reporter.advance(1)
        if step.window is not None:
            values = parts.read_layer(name, layer)["s"] if layers is None else np.asarray(layers.spectrum.s[0])
            total = add_layer(None if step.ref is step.window[0] else total, matrix, values, SIDES[name])
            if step.ref is step.window[-1]:
                parts.write_window(name, layers_of(step.window), energies(total, options.top_k))


def _number(ref: MatrixRef | None) -> int:
    return FIRST if ref is None else ref.layer


def _layer_before(
    latest: tuple[int, Layers] | None, checkpoint: Checkpoint, ref: MatrixRef, options: Options, parts: Parts
) -> Layers:
    """Return the layer before with its spectrum: the latest, or what an interrupted analysis has left of it."""
    if latest is not None and latest[0] == ref.layer:
        return latest[1]
    matrix = _read(checkpoint, ref, options)
    return parts.read_carry(ref.projection, ref.layer, matrix) or decompose_matrix(matrix)


def _heads(matrix: np.ndarray, name: str, model: PretrainedModel, options: Options) -> dict[str, np.ndarray]:
    """Return the leading direction of each head where they are asked for and known."""
    if not options.per_head or name not in model.heads:
        return {}
    return {"heads": np.asarray(head_directions(jnp.asarray(split_heads(matrix, model.heads[name], name))))}


def split_heads(matrix: np.ndarray, heads: tuple[int, int], projection: str) -> np.ndarray:
    """Return a matrix head by head, each as (head_dim, d) with d the residual stream's: (head, head_dim, d)."""
    num_heads, head_dim = heads
    facing = matrix.T if SIDES[projection] == "u" else matrix
    return facing.reshape(num_heads, head_dim, -1)


def is_small(ref: MatrixRef, options: Options) -> bool:
    """Return whether the matrix after this one is decomposed ahead."""
    return ref.shape[0] * ref.shape[1] * np.dtype(options.dtype).itemsize <= SMALL_BYTES


def _read(checkpoint: Checkpoint, ref: MatrixRef, options: Options) -> np.ndarray:
    return read_matrix(checkpoint, ref, options.fold_norms).astype(options.dtype)
