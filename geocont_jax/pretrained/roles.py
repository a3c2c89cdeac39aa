"""Which matrices a checkpoint has, and how each is cut out of its tensor."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from geocont_jax.errors import InputError
from geocont_jax.pretrained.architectures import Norm, Where
from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.match import Match, match_architecture
from geocont_jax.pretrained.projections import PROJECTIONS, ROLES, SIDES
from geocont_jax.pretrained.stated import (
    HEAD_DIM,
    HIDDEN_SIZE,
    NUM_HEADS,
    NUM_KV_HEADS,
    NUM_LAYERS,
    check_stated,
    model_name,
    plain_name,
    stated,
)

EXPERTS = re.compile(r"experts?[._]|_exps\.|_shexp\.|ffn_\w+\.\d+\.")
TOWERS = re.compile(r"(^|\.)(vision|visual|audio)")


@dataclass(frozen=True)
class MatrixRef:
    """One matrix of a model: `shape` (d_out, d_in) as in y = W x, and how it is cut out of `tensor`.

    In this order: `is_transposed`, then `rows` from the first number to before the second, or every third block of a
    head's rows beginning with number `by_head[1]` of `by_head[0]` heads; then the rows of `permuted_heads` heads are
    put back in order. `gain` is the norm's that its input has passed, None where there is none to fold.
    """

    projection: str
    layer: int
    tensor: str
    shape: tuple[int, int]
    is_transposed: bool = False
    rows: tuple[int, int] | None = None
    by_head: tuple[int, int] | None = None
    permuted_heads: int | None = None
    gain: str | None = None
    gain_offset: float = 0.0

    @property
    def residual_size(self) -> int:
        """The dimension of the side that meets the residual stream."""
        return self.shape[1] if SIDES[self.projection] == "v" else self.shape[0]


Matrices = Mapping[str, tuple[MatrixRef, ...]]


@dataclass(frozen=True)
class PretrainedModel:
    """What a checkpoint holds: `matrices` by projection, in the order of layers.

    `heads` are (number, dimension) of q, k, v and o where they are known and the same in all layers; `notes` say what
    was left out and what is unusual.
    """

    architecture: str
    name: str
    num_layers: int
    hidden_size: int
    matrices: Matrices
    heads: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...] = ()

    def with_matrices(self, matrices: Matrices) -> "PretrainedModel":
        """Return the model with these matrices alone."""
        return replace(self, matrices=matrices)


def find_roles(checkpoint: Checkpoint, name: str | None = None) -> PretrainedModel:
    """Return which matrices the checkpoint has; nothing but headers is read.

    Shapes come from the tensors, and what the config says is held against them. Raises InputError where no
    architecture fits, where a layer is missing, and where config and tensors contradict each other.

    Args: `name`, what to call the model in place of what the checkpoint says.
    """
    match = match_architecture(checkpoint)
    declared = [projection for projection in PROJECTIONS if projection in match.architecture.projections]
    matrices = {projection: refs for projection in declared if (refs := _refs(checkpoint, match, projection))}
    hidden = matrices["q"][0].shape[1]
    check_stated(checkpoint, "layers", NUM_LAYERS, len(match.layers))
    check_stated(checkpoint, "hidden size", HIDDEN_SIZE, hidden)
    _check_residual(checkpoint, matrices, hidden)
    head_dim = _head_dim(checkpoint, matrices["q"][0])
    heads = {} if head_dim is None else _heads(checkpoint, matrices, head_dim)
    if match.architecture.is_permuted:
        turned = [projection for projection in ("q", "k") if projection in matrices]
        matrices |= {projection: _permuted(checkpoint, matrices[projection], head_dim) for projection in turned}
    return PretrainedModel(
        match.architecture.name,
        plain_name(name or model_name(checkpoint)),
        len(match.layers),
        hidden,
        matrices,
        heads,
        tuple(_notes(checkpoint, match, matrices)),
    )


def read_matrix(checkpoint: Checkpoint, ref: MatrixRef, fold_norm: bool = False) -> np.ndarray:
    """Return a matrix (d_out, d_in) as float32.

    With `fold_norm` it is `W diag(g)` for the gain g of the norm before it: what the reader makes of an input of unit
    variance. A LayerNorm's bias, which adds a constant, and its subtraction of the mean are left out. Writers stay as
    they are. Raises InputError where a reader has no norm before it.
    """
    rows = slice(None) if ref.rows is None else slice(*ref.rows)
    values = checkpoint.read(ref.tensor).T[rows] if ref.is_transposed else checkpoint.read(ref.tensor, rows)
    if ref.by_head is not None:
        num_heads, part = ref.by_head
        values = values.reshape(num_heads, 3, -1, ref.shape[1])[:, part].reshape(ref.shape)
    if ref.permuted_heads is not None:
        values = unpermuted(values, ref.permuted_heads)
    if fold_norm and ROLES[ref.projection] != "writes":
        with np.errstate(all="ignore"):  # non-finite values are passed on
            values = values * _read_gain(checkpoint, ref)
    return np.ascontiguousarray(values)


def unpermuted(matrix: np.ndarray, num_heads: int) -> np.ndarray:
    """Return Q or K with its rows in the order of half-split rotary embeddings, from that of interleaved ones.

    A head's rows come in pairs that are rotated together: (0, 1), (2, 3), ... become (0, h/2), (1, h/2 + 1), ....

    >>> unpermuted(np.arange(4.0)[:, None], 1).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    d_out, d_in = matrix.shape
    return matrix.reshape(num_heads, d_out // num_heads // 2, 2, d_in).swapaxes(1, 2).reshape(d_out, d_in)


def _read_gain(checkpoint: Checkpoint, ref: MatrixRef) -> np.ndarray:
    if ref.gain is None:
        raise InputError(f"{checkpoint.path}: no norm stands before {ref.projection}; leave --fold-norms out")
    return checkpoint.read(ref.gain) + np.float32(ref.gain_offset)


# --- Where a matrix is ---------------------------------------------------------------------------------------------


def _refs(checkpoint: Checkpoint, match: Match, projection: str) -> tuple[MatrixRef, ...]:
    """Return the matrices of a projection; layers that have no such tensor are left out."""
    where = match.architecture.projections[projection]
    norm = match.architecture.norms.get(projection)
    there = [layer for layer, prefix in match.layers.items() if prefix + where.tensor in checkpoint.tensors]
    refs = [_cut(checkpoint, match, projection, where, layer) for layer in there]
    return tuple(refs if norm is None else (_with_gain(checkpoint, match, norm, ref) for ref in refs))


def _cut(checkpoint: Checkpoint, match: Match, projection: str, where: Where, layer: int) -> MatrixRef:
    tensor = match.layers[layer] + where.tensor
    d_out, d_in = _shape(checkpoint, tensor, where)
    ref = MatrixRef(projection, layer, tensor, (d_out, d_in), where.orientation == "in_out")
    if where.split == "":
        return ref
    if where.split == "qkv_by_head":
        num_heads = stated(checkpoint, NUM_HEADS) or 0
        if num_heads < 1 or d_out % (3 * num_heads):
            raise InputError(
                f"{checkpoint.path}: {tensor} cannot be split: its {d_out} rows have to be Q, K and V of "
                f"{num_heads or 'a number of'} heads; config.json has to say num_attention_heads"
            )
        return replace(ref, shape=(d_out // 3, d_in), by_head=(num_heads, where.part))
    bounds = _halves(checkpoint, tensor, d_out) if where.split == "halves" else _qkv(checkpoint, match, layer, d_out)
    rows = bounds[where.part], bounds[where.part + 1]
    return replace(ref, shape=(rows[1] - rows[0], d_in), rows=rows)


def _shape(checkpoint: Checkpoint, tensor: str, where: Where) -> tuple[int, int]:
    """Return (d_out, d_in) of a tensor."""
    stored = checkpoint.tensors[tensor].shape
    if len(stored) != 2 or 0 in stored:
        raise InputError(f"{checkpoint.path}: {tensor} has shape {stored}, where a matrix is needed")
    return stored if where.orientation == "out_in" else stored[::-1]


def _halves(checkpoint: Checkpoint, tensor: str, d_out: int) -> tuple[int, ...]:
    if d_out % 2:
        raise InputError(f"{checkpoint.path}: {tensor} has {d_out} rows, which are no two halves of gate and up")
    return 0, d_out // 2, d_out


def _qkv(checkpoint: Checkpoint, match: Match, layer: int, d_out: int) -> tuple[int, ...]:
    """Return where Q, K and V begin and end in their fused rows: O reads what Q's heads make, K and V have the rest."""
    output = match.architecture.projections["o"]
    tensor = match.layers[layer] + output.tensor
    if tensor not in checkpoint.tensors:
        raise InputError(f"{checkpoint.path}: {tensor} is missing, without which the fused Q, K and V cannot be split")
    num_q = _shape(checkpoint, tensor, output)[1]
    num_kv = (d_out - num_q) // 2
    if num_kv <= 0 or num_q + 2 * num_kv != d_out:
        raise InputError(f"{checkpoint.path}: {d_out} fused rows do not hold Q ({num_q} by {tensor}), K and V")
    return 0, num_q, num_q + num_kv, d_out


def _with_gain(checkpoint: Checkpoint, match: Match, norm: Norm, ref: MatrixRef) -> MatrixRef:
    """Return the matrix with the gain that folds into it, as it is where the checkpoint has none."""
    layer = ref.layer - norm.after_layer
    gain = match.layers[layer] + norm.tensor if layer >= 0 else match.model + norm.embedding
    if gain not in checkpoint.tensors:
        return ref
    shape = checkpoint.tensors[gain].shape
    if shape != ref.shape[1:]:
        raise InputError(f"{checkpoint.path}: {gain} has shape {shape}, but {ref.tensor} reads {ref.shape[1]} numbers")
    return replace(ref, gain=gain, gain_offset=norm.offset)


# --- What has to agree ---------------------------------------------------------------------------------------------


def _all(matrices: Matrices) -> Iterable[MatrixRef]:
    return (ref for refs in matrices.values() for ref in refs)


def _check_residual(checkpoint: Checkpoint, matrices: Matrices, hidden: int) -> None:
    """Raise InputError where a matrix does not fit the residual stream that all read from and write to."""
    for ref in _all(matrices):
        if ref.residual_size != hidden:
            verb = "writes" if ROLES[ref.projection] == "writes" else "reads"
            raise InputError(
                f"{checkpoint.path}: {ref.tensor} {verb} {ref.residual_size} numbers, where the residual stream has "
                f"{hidden}; are its rows and columns the other way round?"
            )


def _head_dim(checkpoint: Checkpoint, q: MatrixRef) -> int | None:
    """Return the dimension of a query head, None where the config does not say how many there are."""
    count, dimension, size = stated(checkpoint, NUM_HEADS), stated(checkpoint, HEAD_DIM), q.shape[0]
    if count is None:
        return None
    if count < 1 or size % count or dimension not in (None, size // count):
        said = f"{count} heads" + ("" if dimension is None else f" of {dimension}")
        raise InputError(f"{checkpoint.path}: the config says {said}, but {q.tensor} gives {size} for them")
    return size // count


def _heads(checkpoint: Checkpoint, matrices: Matrices, head_dim: int) -> dict[str, tuple[int, int]]:
    """Return number and dimension of the heads of each projection of which all layers are alike.

    Keys are as long as queries, and there are as many values as keys. A config need not say how many.
    """
    num_heads = num_kv_heads = matrices["q"][0].shape[0] // head_dim
    if "k" in matrices:
        num_kv_heads = matrices["k"][0].shape[0] // head_dim
        check_stated(checkpoint, "key and value heads", NUM_KV_HEADS, num_kv_heads)
    found = {}
    for projection, count in {"q": num_heads, "k": num_kv_heads, "v": num_kv_heads, "o": num_heads}.items():
        for ref in matrices.get(projection, ())[:1]:
            size = ref.shape[1] if projection == "o" else ref.shape[0]
            if count < 1 or size % count or (projection == "k" and size != count * head_dim):
                raise InputError(f"{checkpoint.path}: {ref.tensor} gives {size} for heads of {head_dim}")
            if len({other.shape for other in matrices[projection]}) == 1:
                found[projection] = count, size // count
    return found


def _permuted(checkpoint: Checkpoint, refs: Iterable[MatrixRef], head_dim: int | None) -> tuple[MatrixRef, ...]:
    """Return matrices whose rows have to be put in order, head by head."""
    found = []
    for ref in refs:
        rows = ref.shape[0]
        if head_dim is None or head_dim % 2 or rows % head_dim:
            known = "its number of heads is not known" if head_dim is None else f"{rows} rows, heads of {head_dim}"
            raise InputError(f"{checkpoint.path}: {ref.tensor} cannot be put in order: {known}")
        found.append(replace(ref, permuted_heads=rows // head_dim))
    return tuple(found)


def _notes(checkpoint: Checkpoint, match: Match, matrices: Matrices) -> Iterable[str]:
    """Yield what was left out, and what is unusual."""
    layers = tuple(match.layers.values())
    experts = sum(bool(EXPERTS.search(name)) for name in checkpoint.tensors if name.startswith(layers))
    if experts:
        yield f"{experts} tensors of experts are left out: an expert has no neighbour in the next layer"
    towers = sum(bool(TOWERS.search(name)) for name in checkpoint.tensors)
    if towers:
        yield f"{towers} tensors of vision or audio towers are left out"
    absent = [projection for projection in match.architecture.projections if projection not in matrices]
    if absent:
        yield f"{', '.join(absent)}: no layer has their tensors"
    for projection, refs in matrices.items():
        if len(refs) < len(layers):
            yield f"{projection} is in {len(refs)} of {len(layers)} layers"
        if len({ref.shape for ref in refs}) > 1:
            yield f"layers have {projection} of different shapes; those have no pair"
