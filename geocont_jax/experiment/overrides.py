"""Values given on the command line, `--set KEY=VALUE`, put over those of a grid file."""

from typing import Any

from geocont_jax.experiment.document import Document, parse_override
from geocont_jax.experiment.problems import one_line
from geocont_jax.experiment.sections import SECTIONS

AXES = ("sweep", "zip")
# A training has one length: naming it one way replaces it where the file names it the other way.
OTHER_LENGTH = {"training.steps": "epochs", "training.epochs": "steps"}


def override(document: Document, text: str) -> None:
    """Put the value of one `KEY=VALUE` into the document's tree, in place of what was there.

    KEY is a name of the top level (seeds), a dotted setting (model.width) or an axis (sweep.model.width);
    VALUE is written as in the file. Raises InputError.
    """
    origin = f"--set {text}"
    key, equals, raw = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise one_line(origin, "", "not KEY=VALUE; write for example --set model.width=64")
    for axes in AXES:
        if isinstance(document.tree.get(axes), dict) and key in document.tree[axes]:
            raise one_line(origin, key, f"is an axis of this grid; write --set {axes}.{key}=[{raw}]")
    path = _path(key)
    value = parse_override(raw, origin).tree
    document.tree = _with(_without_other_length(document.tree, key), path, value)
    document.move(path, origin)


def _path(key: str) -> tuple[str, ...]:
    head, dot, rest = key.partition(".")
    return (head, rest) if dot and head in (*SECTIONS, *AXES) else (key,)


def _with(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the tree with the value at the path; nothing that others hold is changed."""
    if len(path) == 1:
        return tree | {path[0]: value}
    inner = tree.get(path[0], {})
    # A section that is no mapping stays: checking the grid will say what is wrong with it.
    return tree | {path[0]: inner | {path[1]: value}} if isinstance(inner, dict) else tree


def _without_other_length(tree: dict[str, Any], key: str) -> dict[str, Any]:
    other, training = OTHER_LENGTH.get(key.removeprefix("sweep.").removeprefix("zip.")), tree.get("training")
    if other is None or not isinstance(training, dict):
        return tree
    return tree | {"training": {name: value for name, value in training.items() if name != other}}
