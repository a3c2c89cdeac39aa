"""From a grid file, or a dict, to a checked grid."""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from geocont_jax.errors import InputError
from geocont_jax.experiment.advice import unknown_key
from geocont_jax.experiment.document import MAX_DEPTH, Document, parse_file_text, require_mapping
from geocont_jax.experiment.overrides import override
from geocont_jax.experiment.problems import Path as Place
from geocont_jax.experiment.problems import dotted_place, first_problem, one_line
from geocont_jax.experiment.scalars import show
from geocont_jax.experiment.settings import Grid
from geocont_jax.experiment.smoke import smoke
from geocont_jax.experiment.spec import grid_dict, to_yaml

__all__ = ["grid_dict", "load_grid", "smoke", "to_yaml"]

MAX_BYTES = 1_000_000
AXES = ("sweep", "zip")


def load_grid(source: str | Path | Mapping[str, Any] | Grid, overrides: Sequence[str] = ()) -> Grid:
    """Read and check a grid: a file, a dict with the same content, or a grid that was read before.

    `overrides` are texts `KEY=VALUE` as after `--set`: dotted names (`model.width=64`,
    `sweep.model.width=[64, 128]`, `seeds=2`) and values written as in the file. `source` is not changed.

    Raises InputError, one line: the place, the setting, what is wrong and what to write instead.

    >>> load_grid({"name": "small", "model": {"width": 64}}, ["seeds=2"]).model.width
    64
    """
    document = _read(source)
    require_mapping(document)
    for text in overrides:
        override(document, text)
    try:
        return Grid.model_validate(document.tree)
    except ValidationError as error:
        path, of_key, message = first_problem(error, unknown_key)
        raise one_line(document.where(path, of_key), dotted_place(path), message) from None


def _read(source: str | Path | Mapping[str, Any] | Grid) -> Document:
    if isinstance(source, Grid):
        source = grid_dict(source)
    if isinstance(source, Mapping):
        return Document("<dict>", _plain(source, ()))
    if not isinstance(source, (str, Path)):
        raise InputError(f"{show(source)}: not a grid; give a path or a dict")
    return parse_file_text(_read_text(Path(source)), str(source))


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise one_line(str(path), "", "is a folder; give a grid file in it") from None
    except FileNotFoundError:
        raise one_line(str(path), "", "no such file; give the path of a grid file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise one_line(str(path), "", f"cannot be read ({reason}); give the path of a grid file") from None
    if len(content) > MAX_BYTES:
        raise one_line(str(path), "", f"larger than {MAX_BYTES:,} bytes; give a grid file, not data")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        place = f"{path}:{line}:{column}"
        raise one_line(place, "", f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


def _plain(value: Any, path: Place) -> Any:
    """Copy a Python structure into dicts, lists and single values, as they come from a file."""
    if len(path) > MAX_DEPTH:
        raise one_line("<dict>", dotted_place(path[:3]), "nested too deeply; a grid has three levels")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise one_line("<dict>", dotted_place(path), f"the key {show(key)} is not text; write it in quotes")
        return {str(key): _plain(inner, (*path, key)) for key, inner in value.items()}
    if isinstance(value, range) and path == ("seeds",):
        return value  # a count may be too large to be written out
    if isinstance(value, (list, tuple, range)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_plain(inner, (*path, i)) for i, inner in enumerate(value)]
    if isinstance(value, (Set, Iterator)):
        raise one_line("<dict>", dotted_place(path), f"a {type(value).__name__} has no order; write a list")
    return value.item() if isinstance(value, np.ndarray) else value
