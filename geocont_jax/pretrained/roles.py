"""Which matrices a checkpoint has, and how each is cut out of its tensor."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geocont_jax.errors import InputError
from geocont_jax.pretrained.architectures import ARCHITECTURES, Architecture, Norm, Where
from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.projections import PROJECTIONS

MAX_LISTED = 6
# What a config calls the same thing, by model family; in GGUF behind the architecture's name.
LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "block_count")
HIDDEN_KEYS = ("hidden_size", "n_embd", "embedding_length")
HEAD_KEYS = ("num_attention_heads", "n_head", "attention.head_count")
KV_HEAD_KEYS = ("num_key_value_heads", "attention.head_count_kv")
HEAD_DIM_KEYS = ("head_dim", "attention.key_length")


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


@dataclass(frozen=True)
class PretrainedModel:
    """What a checkpoint holds: `matrices` by projection, in the order of layers.

    `heads` are (number, dimension) of q, k, v and o where the checkpoint says them; `notes` say what was left out.
    """

    architecture: str
    name: str
    num_layers: int
    hidden_size: int
    matrices: Mapping[str, tuple[MatrixRef, ...]]
    heads: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...] = ()

    def with_matrices(self, matrices: Mapping[str, tuple[MatrixRef, ...]]) -> "PretrainedModel":
        """Return the model with these matrices alone."""
        return replace(self, matrices=matrices)


def find_roles(checkpoint: Checkpoint, name: str | None = None) -> PretrainedModel:
    """Return which matrices the checkpoint has; nothing but headers is read.

    Shapes come from the tensors, and what the config says is held against them. Raises InputError where no
    architecture fits, where a layer is missing, and where config and tensors contradict each other.

    Args: `name`, what to call the model in place of what the checkpoint says.
    """
    architecture = _architecture(checkpoint)
    prefixes = _prefixes(checkpoint, architecture)
    heads = _Heads.of(checkpoint)
    matrices = {}
    for projection in PROJECTIONS:
        where = architecture.projections.get(projection)
        refs = [] if where is None else [
            _ref(checkpoint, architecture, projection, where, layer, prefixes, heads)
            for layer in prefixes if prefixes[layer] + where.tensor in checkpoint.tensors
        ]  # fmt: skip
        if refs:
            matrices[projection] = tuple(refs)
    hidden = next(iter(matrices.values()))[0].shape[1]
    _check(checkpoint, "layers", LAYER_KEYS, len(prefixes))
    _check(checkpoint, "hidden size", HIDDEN_KEYS, hidden)
    return PretrainedModel(
        architecture.name,
        _plain(name or _name(checkpoint)),
        len(prefixes),
        hidden,
        matrices,
        heads.by_projection(checkpoint, matrices),
        tuple(_notes(checkpoint, architecture, matrices, len(prefixes))),
    )


def read_matrix(checkpoint: Checkpoint, ref: MatrixRef, fold_norm: bool = False) -> np.ndarray:
    """Return a matrix (d_out, d_in) as float32.

    With `fold_norm` it is `W diag(g)` for the gain g of the norm before it: what the reader makes of an input of unit
    variance. A LayerNorm's bias, which adds a constant, and its subtraction of the mean are left out. Writers stay as
    they are. Raises InputError where a reader has no norm before it.
    """
    if ref.rows is not None and not ref.is_transposed:
        values = checkpoint.read(ref.tensor, slice(*ref.rows))
    else:
        values = checkpoint.read(ref.tensor)
        values = values.T if ref.is_transposed else values
        values = values if ref.rows is None else values[slice(*ref.rows)]
    if ref.by_head is not None:
        num_heads, part = ref.by_head
        values = values.reshape(num_heads, 3, -1, values.shape[1])[:, part].reshape(-1, values.shape[1])
    if ref.permuted_heads is not None:
        values = unpermuted(values, ref.permuted_heads)
    if not fold_norm or ref.projection in ("o", "down"):
        return np.ascontiguousarray(values)
    if ref.gain is None:
        raise InputError(f"{checkpoint.path}: no norm stands before {ref.projection}; leave --fold-norms out")
    return values * (checkpoint.read(ref.gain) + np.float32(ref.gain_offset))


def unpermuted(matrix: np.ndarray, num_heads: int) -> np.ndarray:
    """Return Q or K with its rows in the order of half-split rotary embeddings, from that of interleaved ones.

    A head's rows come in pairs that are rotated together: (0, 1), (2, 3), ... become (0, h/2), (1, h/2 + 1), ....

    >>> unpermuted(np.arange(4.0)[:, None], 1).ravel().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    d_out, d_in = matrix.shape
    return matrix.reshape(num_heads, d_out // num_heads // 2, 2, d_in).swapaxes(1, 2).reshape(d_out, d_in)


# --- Which architecture it is --------------------------------------------------------------------------------------


def _architecture(checkpoint: Checkpoint) -> Architecture:
    for entry in ARCHITECTURES:
        if entry.format == checkpoint.format and _fits(entry, checkpoint):
            return entry
    kind = _model_type(checkpoint)
    raise InputError(
        f"{checkpoint.path}: no known architecture fits{f' (it calls itself {kind})' if kind else ''}; it has "
        f"{_seen(checkpoint)}; an entry in geocont_jax/pretrained/architectures.py adds one"
    )


def _fits(entry: Architecture, checkpoint: Checkpoint) -> bool:
    if entry.model_types and _model_type(checkpoint) not in entry.model_types:
        return False
    ends = {name[match.end() :] for name in checkpoint.tensors if (match := entry.layer.match(name))}
    return ends.issuperset(entry.needs) and ends.isdisjoint(entry.lacks)


def _model_type(checkpoint: Checkpoint) -> str:
    found = checkpoint.config.get("general.architecture") or _text_config(checkpoint).get("model_type")
    return found if isinstance(found, str) else ""


def _seen(checkpoint: Checkpoint) -> str:
    """Return the kinds of tensors that are there, numbers left out, the most frequent first."""
    kinds = Counter(re.sub(r"\d+", "N", name) for name in checkpoint.tensors)
    listed = [f"{kind} ({count})" for kind, count in kinds.most_common(MAX_LISTED)]
    return ", ".join([*listed, *(["..."] if len(kinds) > MAX_LISTED else [])]) or "no tensors"


def _prefixes(checkpoint: Checkpoint, architecture: Architecture) -> dict[int, str]:
    """Return the prefix of each layer's tensors, in the order of layers; raises InputError where one is missing."""
    found = {int(match[1]): match[0] for name in checkpoint.tensors if (match := architecture.layer.match(name))}
    missing = sorted(set(range(max(found) + 1)) - set(found))
    if missing:
        raise InputError(f"{checkpoint.path}: layer {missing[0]} has no tensors; is a file of the checkpoint missing?")
    return {layer: found[layer] for layer in sorted(found)}


# --- One matrix ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Heads:
    """What the config says of attention heads; 0 where it says nothing."""

    number: int
    kv_number: int
    dimension: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "_Heads":
        number = _said(checkpoint, HEAD_KEYS) or 0
        return cls(number, _said(checkpoint, KV_HEAD_KEYS) or number, _said(checkpoint, HEAD_DIM_KEYS) or 0)

    def count(self, projection: str) -> int:
        return self.kv_number if projection in ("k", "v") else self.number

    def by_projection(
        self, checkpoint: Checkpoint, matrices: Mapping[str, tuple[MatrixRef, ...]]
    ) -> dict[str, tuple[int, int]]:
        """Return number and dimension of the heads; raises InputError where they do not divide the matrices."""
        found = {}
        for projection in ("q", "k", "v", "o"):
            count = self.count(projection)
            if not count or projection not in matrices:
                continue
            first = matrices[projection][0]
            size = first.shape[1] if projection == "o" else first.shape[0]
            known = self.dimension if projection in ("q", "k") else 0
            if size % count or (known and size != count * known):
                said = f"{count} heads" + (f" of {known}" if known else "")
                raise InputError(f"{checkpoint.path}: the config says {said}, but {first.tensor} gives {size} for them")
            found[projection] = (count, size // count)
        return found


def _ref(
    checkpoint: Checkpoint,
    architecture: Architecture,
    projection: str,
    where: Where,
    layer: int,
    prefixes: Mapping[int, str],
    heads: _Heads,
) -> MatrixRef:
    tensor = prefixes[layer] + where.tensor
    stored = checkpoint.tensors[tensor].shape
    if len(stored) != 2:
        raise InputError(f"{checkpoint.path}: {tensor} has shape {stored}, where a matrix is needed")
    d_out, d_in = stored if where.orientation == "out_in" else stored[::-1]
    ref = MatrixRef(projection, layer, tensor, (d_out, d_in), where.orientation == "in_out")
    if where.split == "qkv_by_head":
        if not heads.number or d_out % (3 * heads.number):
            raise InputError(f"{checkpoint.path}: {tensor} cannot be split: config.json has to say num_attention_heads")
        ref = replace(ref, shape=(d_out // 3, d_in), by_head=(heads.number, where.part))
    elif where.split:
        bounds = _halves(d_out) if where.split == "halves" else _qkv(checkpoint, architecture, prefixes[layer], d_out)
        first, last = bounds[where.part], bounds[where.part + 1]
        ref = replace(ref, shape=(last - first, d_in), rows=(first, last))
    if architecture.is_permuted and projection in ("q", "k"):
        count = heads.count(projection)
        if not count or ref.shape[0] % (2 * count):
            raise InputError(f"{checkpoint.path}: {tensor} cannot be put in order: its number of heads is not known")
        ref = replace(ref, permuted_heads=count)
    norm = architecture.norms.get(projection)
    gain = None if norm is None else _gain(norm, layer, prefixes)
    if norm is not None and gain in checkpoint.tensors:
        ref = replace(ref, gain=gain, gain_offset=norm.offset)
    return ref


def _halves(d_out: int) -> tuple[int, ...]:
    return 0, d_out // 2, d_out


def _qkv(checkpoint: Checkpoint, architecture: Architecture, prefix: str, d_out: int) -> tuple[int, ...]:
    """Return where Q, K and V begin and end in their fused rows: O reads what Q's heads make, K and V have the rest."""
    output = architecture.projections["o"]
    tensor = prefix + output.tensor
    if tensor not in checkpoint.tensors:
        raise InputError(f"{checkpoint.path}: {tensor} is missing, without which the fused Q, K and V cannot be split")
    stored = checkpoint.tensors[tensor].shape
    num_q = stored[1] if output.orientation == "out_in" else stored[0]
    num_kv = (d_out - num_q) // 2
    if num_kv <= 0 or num_q + 2 * num_kv != d_out:
        raise InputError(f"{checkpoint.path}: {d_out} fused rows do not hold Q ({num_q} by {tensor}), K and V")
    return 0, num_q, num_q + num_kv, d_out


def _gain(norm: Norm, layer: int, prefixes: Mapping[int, str]) -> str:
    before = layer - norm.layers_before
    if before in prefixes:
        return prefixes[before] + norm.tensor
    outer = re.sub(r"(encoder\.layer|blk)\.\d+\.$", "", prefixes[layer])
    return outer + norm.first


# --- What the checkpoint says of itself ----------------------------------------------------------------------------


def _text_config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    inner = checkpoint.config.get("text_config")
    return inner if isinstance(inner, Mapping) else checkpoint.config


def _said(checkpoint: Checkpoint, keys: tuple[str, ...]) -> int | None:
    """Return the first of some entries of the config that is a whole number."""
    family = checkpoint.config.get("general.architecture")
    for key in keys:
        found = checkpoint.config.get(f"{family}.{key}") if family else _text_config(checkpoint).get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _check(checkpoint: Checkpoint, what: str, keys: tuple[str, ...], found: int) -> None:
    said = _said(checkpoint, keys)
    if said is not None and said != found:
        raise InputError(
            f"{checkpoint.path}: the config says {what} {said}, the tensors {found}; is it another model's config, or "
            "is a file missing?"
        )


def _name(checkpoint: Checkpoint) -> str:
    """Return what people call it: the name of its folder or file; what GGUF files say inside is seldom that."""
    path = checkpoint.path
    if path.parent.name == "snapshots":  # the Hub's cache: models--ORG--NAME/snapshots/COMMIT
        return path.parents[1].name.rpartition("--")[2]
    return (
        path.parent.name
        if path.is_file() and path.name.startswith("model")
        else path.stem
        if path.is_file()
        else path.name
    )


def _plain(name: str) -> str:
    """Return a name that can be a folder's.

    >>> _plain("SmolLM2 135M.Q4_1"), _plain("../x")
    ('SmolLM2-135M.Q4_1', 'x')
    """
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"


def _notes(
    checkpoint: Checkpoint, architecture: Architecture, matrices: Mapping[str, tuple[MatrixRef, ...]], num_layers: int
) -> list[str]:
    """Return what was left out, and what is unusual."""
    notes = []
    inside = [name for name in checkpoint.tensors if architecture.layer.match(name)]
    experts = [name for name in inside if re.search(r"experts?[._]|_exps|_shexp", name)]
    if experts:
        notes.append(f"{len(experts)} tensors of experts are left out: an expert has no neighbour in the next layer")
    towers = [name for name in checkpoint.tensors if re.search(r"(^|\.)(vision|visual|audio)", name)]
    if towers:
        notes.append(f"{len(towers)} tensors of vision or audio towers are left out")
    for projection, refs in matrices.items():
        if len(refs) < num_layers:
            notes.append(f"{projection} is in {len(refs)} of {num_layers} layers")
        if len({ref.shape for ref in refs}) > 1:
            notes.append(f"layers have {projection} of different shapes; those have no pair")
    return notes
