"""What a checkpoint says of itself, in config.json or the metadata of a GGUF file: to be held against its tensors."""

import re
from collections.abc import Mapping
from typing import Any

from geocont_jax.errors import InputError
from geocont_jax.pretrained.checkpoint import Checkpoint

# What configs call the same thing; the last in GGUF, behind the name of the architecture.
NUM_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "block_count")
HIDDEN_SIZE = ("hidden_size", "n_embd", "embedding_length")
NUM_HEADS = ("num_attention_heads", "n_head", "attention.head_count")
NUM_KV_HEADS = ("num_key_value_heads", "attention.head_count_kv")
HEAD_DIM = ("head_dim", "attention.key_length")


def model_type(checkpoint: Checkpoint) -> str:
    """Return the family that the checkpoint says it belongs to, "" where it says nothing."""
    found = checkpoint.config.get("general.architecture") or _text_config(checkpoint).get("model_type")
    return found if isinstance(found, str) else ""


def stated(checkpoint: Checkpoint, keys: tuple[str, ...]) -> int | None:
    """Return the first of some entries of the config that is a whole number; None where there is none."""
    if family := checkpoint.config.get("general.architecture"):
        entries = [checkpoint.config.get(f"{family}.{key}") for key in keys]
    else:
        entries = [_text_config(checkpoint).get(key) for key in keys]
    return next((entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)), None)


def check_stated(checkpoint: Checkpoint, what: str, keys: tuple[str, ...], found: int) -> None:
    """Raise InputError, which names both, where the config says another number than was found in the tensors."""
    said = stated(checkpoint, keys)
    if said is not None and said != found:
        raise InputError(
            f"{checkpoint.path}: the config says {what} {said}, the tensors {found}; is it another model's config, or "
            "is a file missing?"
        )


def model_name(checkpoint: Checkpoint) -> str:
    """Return what people call it: the name of its folder or file; what GGUF files say inside is seldom that."""
    path = checkpoint.path
    if path.parent.name == "snapshots":  # the Hub's cache: models--ORG--NAME/snapshots/COMMIT
        return path.parents[1].name.rpartition("--")[2]
    if not path.is_file():
        return path.name
    return path.parent.name if path.name.startswith("model") else path.stem


def plain_name(name: str) -> str:
    """Return a name that can be a folder's.

    >>> plain_name("SmolLM2 135M.Q4_1"), plain_name("../x")
    ('SmolLM2-135M.Q4_1', 'x')
    """
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "model"


def _text_config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """Return the config, of a multimodal model that of its text tower."""
    inner = checkpoint.config.get("text_config")
    return inner if isinstance(inner, Mapping) else checkpoint.config
