"""Which architecture a checkpoint has: the entry of the table whose tensors are there, and where its layers are."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from geocont_jax.errors import InputError
from geocont_jax.pretrained.architectures import ARCHITECTURES, Architecture
from geocont_jax.pretrained.checkpoint import Checkpoint
from geocont_jax.pretrained.stated import model_type

MAX_LISTED = 6


class Match(NamedTuple):
    """An architecture in a checkpoint: the prefix of the model's tensors, and that of each layer's, in their order."""

    architecture: Architecture
    model: str
    layers: Mapping[int, str]


def match_architecture(checkpoint: Checkpoint) -> Match:
    """Return the first entry of the table that fits.

    Raises InputError where none does, which lists what was seen; where two models in the checkpoint fit it; and where
    a layer is missing between others.
    """
    for entry in ARCHITECTURES:
        fitting = _fitting(checkpoint, entry)
        if len(fitting) > 1:
            names = " and ".join(f"{model}..." for model in fitting)
            raise InputError(f"{checkpoint.path}: holds several models, {names}; save the one that is meant alone")
        for model, layers in fitting.items():
            return Match(entry, model, _in_order(checkpoint, layers))
    kind = _one_line(model_type(checkpoint))
    raise InputError(
        f"{checkpoint.path}: no known architecture fits{f' (it calls itself {kind})' if kind else ''}; it has "
        f"{_seen(checkpoint)}; an entry in geocont_jax/pretrained/architectures.py adds one"
    )


def _fitting(checkpoint: Checkpoint, entry: Architecture) -> dict[str, dict[int, str]]:
    """Return the layers' prefixes of each model in the checkpoint that an entry fits, by the model's prefix."""
    if entry.format != checkpoint.format or (entry.model_types and model_type(checkpoint) not in entry.model_types):
        return {}
    layers: dict[str, dict[int, str]] = {}
    ends: dict[str, set[str]] = {}
    for name in checkpoint.tensors:
        if match := entry.layer.match(name):
            layers.setdefault(match["model"], {})[int(match["number"])] = match[0]
            ends.setdefault(match["model"], set()).add(name[match.end() :])
    return {
        model: layers[model]
        for model, found in ends.items()
        if found.issuperset(entry.needs) and found.isdisjoint(entry.lacks)
    }


def _in_order(checkpoint: Checkpoint, layers: Mapping[int, str]) -> dict[int, str]:
    found = {layer: layers[layer] for layer in sorted(layers)}
    missing = next((number for number, layer in enumerate(found) if number != layer), None)
    if missing is not None:
        raise InputError(f"{checkpoint.path}: layer {missing} has no tensors; is a file of the checkpoint missing?")
    return found


def _seen(checkpoint: Checkpoint) -> str:
    """Return the kinds of tensors that are there, numbers left out, the most frequent first."""
    kinds = Counter(re.sub(r"\d+", "N", name) for name in checkpoint.tensors)
    listed = [f"{_one_line(kind)} ({count})" for kind, count in kinds.most_common(MAX_LISTED)]
    return ", ".join([*listed, *(["..."] if len(kinds) > MAX_LISTED else [])]) or "no tensors"


def _one_line(text: str) -> str:
    """Return what a stranger's file says, fit to stand in a line."""
    return " ".join(text.split())[:80]
