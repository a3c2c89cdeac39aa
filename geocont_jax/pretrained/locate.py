"""What a path means: which files of a folder, which parts of a split file, what is downloaded for hf:org/name."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from geocont_jax.errors import InputError
from geocont_jax.pretrained.hub import PREFIX, download
from geocont_jax.pretrained.safetensors_files import INDEX_SUFFIX
from geocont_jax.pretrained.untrusted import find_all, first_of

ACCEPTED = "a folder, a .safetensors or .gguf file, a *.safetensors.index.json, or hf:org/name"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
PART = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<suffix>\.gguf|\.safetensors)", re.DOTALL)


class Source(NamedTuple):
    """The files of a checkpoint: an index alone, or the files that hold tensors, in their order."""

    path: Path
    format: str
    files: tuple[Path, ...]


def locate(path: str | Path) -> Source:
    """Return the files that a path means; none of them has been read, but hf:org/name has been downloaded.

    Raises InputError where there is no checkpoint, or more than one, with what is there.
    """
    if str(path).startswith(PREFIX):
        file = download(str(path))
        return Source(file.parent, "safetensors", (file,))
    given = Path(os.path.abspath(os.path.expanduser(path)))
    if os.path.isdir(given):
        return _in_folder(given)
    if os.path.isfile(given):
        return _of_file(given)
    raise InputError(f"{given}: no such file or folder; name {ACCEPTED}")


def _of_file(file: Path) -> Source:
    """Return what a file belongs to; its own name tells the format, a link may lead to any other."""
    if file.name.endswith((INDEX_SUFFIX, ".safetensors")):
        return Source(file, "safetensors", (file,))
    if file.suffix == ".gguf":
        return Source(file, "gguf", find_all(file.parent, parts_of(file.name), file))
    if file.suffix in PICKLES:
        raise InputError(f"{file}: {_conversion(file.parent)}")
    raise InputError(f"{file}: no checkpoint, going by its name; name {ACCEPTED}")


def _in_folder(folder: Path) -> Source:
    """Return the source in a folder: its index, else all its safetensors files, else its one GGUF model."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from None
    if indexes := _ending(names, INDEX_SUFFIX):
        usual = f"model{INDEX_SUFFIX}"
        chosen = usual if usual in indexes else _only(folder, indexes)
        return Source(folder, "safetensors", find_all(folder, [chosen], folder))
    if weights := _ending(names, ".safetensors"):
        wanted = dict.fromkeys(part for name in weights for part in parts_of(name))
        return Source(folder, "safetensors", find_all(folder, list(wanted), folder))
    if models := dict.fromkeys(parts_of(name)[0] for name in _ending(names, ".gguf")):
        parts = parts_of(_only(folder, list(models)))
        return Source(folder, "gguf", find_all(folder, parts, folder))
    if any(name.endswith(PICKLES) for name in names):
        raise InputError(f"{folder}: {_conversion(folder)}")
    seen = first_of(names) if names else "nothing"
    raise InputError(f"{folder}: no safetensors or GGUF files in it, only {seen}; name {ACCEPTED}")


def parts_of(name: str) -> list[str]:
    """Return the names of all parts of a split file, given one of them.

    >>> parts_of("smol-00002-of-00002.gguf"), parts_of("smol.gguf")
    (['smol-00001-of-00002.gguf', 'smol-00002-of-00002.gguf'], ['smol.gguf'])
    """
    found = PART.fullmatch(name)
    if found is None:
        return [name]
    stem, count, suffix = found.group("stem", "count", "suffix")
    return [f"{stem}-{number:05d}-of-{count}{suffix}" for number in range(1, int(count) + 1)] or [name]


def _ending(names: Sequence[str], suffix: str) -> list[str]:
    """Return the names that end so, without the companions that macOS leaves on foreign disks."""
    return [name for name in names if name.endswith(suffix) and not name.startswith("._")]


def _only(folder: Path, names: Sequence[str]) -> str:
    if len(names) > 1:
        raise InputError(f"{folder}: holds several checkpoints ({first_of(names)}); name one of these files")
    return names[0]


def _conversion(folder: Path) -> str:
    load = f"from transformers import AutoModelForCausalLM as A; A.from_pretrained('{folder}').save_pretrained('NEW')"
    return f'pickles can run code when they are opened, and are not; convert them with python -c "{load}"'
