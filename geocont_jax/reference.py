"""`python -m geocont_jax.reference`: print the reference of all settings, families, quantities and nulls as Markdown.

Everything comes from the tables that the code itself uses, so that a new entry documents itself. The documents in
docs/ hold these texts as blocks, which `tests/test_generated_docs.py` keeps equal to what is printed here.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from geocont_jax.analysis.markdown import markdown_table
from geocont_jax.experiment.scalars import FLOAT32_MAX, MAX_INT, Scalar
from geocont_jax.experiment.sections import FIELDS, MARKERS, SECTIONS, short_name
from geocont_jax.experiment.settings import Grid
from geocont_jax.geometry.null import NULLS
from geocont_jax.geometry.quantities import QUANTITIES
from geocont_jax.optimizers.registry import OPTIMIZERS
from geocont_jax.training.families import FAMILIES
from geocont_jax.training.measure import OF_LEADING, OF_RUN
from geocont_jax.training.state import LEADING

Schema = Mapping[str, Any]

EXAMPLE_DIMENSION, EXAMPLE_K = 256, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the reference and return the exit status."""
    argparse.ArgumentParser(
        prog="python -m geocont_jax.reference",
        description="Print the reference of grid files and of what is recorded, as Markdown.",
        allow_abbrev=False,
    ).parse_args(arguments)
    print("\n\n".join(f"## {name.replace('-', ' ').capitalize()}\n\n{block()}" for name, block in BLOCKS.items()))
    return 0


def settings_table() -> str:
    """Return every setting of a grid file, a table per section: values, default, traced or static, meaning."""
    return "\n\n".join(f"### `{section}`\n\n{_section_table(section)}" for section in SECTIONS)


def grid_keys_table() -> str:
    """Return the keys of a grid file beside its sections of settings."""
    fields = {name: field for name, field in Grid.model_fields.items() if name not in SECTIONS}
    rows = ([f"`{name}`", _default(field), field.description or ""] for name, field in fields.items())
    return markdown_table(("key", "default", "meaning"), rows)


def families_table() -> str:
    """Return the families of matrices that are measured.

    >>> print(families_table().splitlines()[2])
    | `weight` | basic, all | weight W |
    """
    rows = (
        [f"`{name}`", "basic, all" if family.basic else "all", family.description] for name, family in FAMILIES.items()
    )
    return markdown_table(("family", "`measure.families`", "what it is"), rows)


def quantities_table() -> str:
    """Return what is recorded of every family: axes, description, formula, null, source, and whether `fast` has it."""
    rows = (
        [f"`{name}`", _axes(quantity.axes), quantity.description, _code(quantity.formula), quantity.null or "",
         quantity.source, "yes" if quantity.needs <= LEADING + 1 else ""]
        for name, quantity in QUANTITIES.items()
    )  # fmt: skip
    return markdown_table(("quantity", "per", "what it is", "formula", "null", "source", "`svd: fast`"), rows)


def run_table() -> str:
    """Return what is recorded of a run beside the quantities of the families."""
    rows = ([f"`{name}`", _axes(field.axes), field.long_name] for name, field in (OF_RUN | OF_LEADING).items())
    return markdown_table(("variable", "per", "what it is"), rows)


def nulls_table() -> str:
    """Return the null distributions, with their numbers at an example's dimension."""
    size = f"d = {EXAMPLE_DIMENSION}, k = {EXAMPLE_K}"
    rows = (
        [name, null.formula, *(f"{of(EXAMPLE_DIMENSION, EXAMPLE_K):.4f}" for of in (null.mean, null.sd))]
        for name, null in NULLS.items()
    )
    return markdown_table(("null", "of one pair", f"mean at {size}", f"sd at {size}"), rows)


def optimizers_table() -> str:
    """Return the optimisers: what they are, and whether their steps turn with the gradient."""
    rows = (
        [f"`{name}`", optimizer.description, "yes" if optimizer.equivariant else "no"]
        for name, optimizer in OPTIMIZERS.items()
    )
    return markdown_table(("`training.optimizer`", "what it is", "turns with rotations"), rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "grid-keys": grid_keys_table,
    "settings": settings_table,
    "optimizers": optimizers_table,
    "families": families_table,
    "quantities": quantities_table,
    "of-the-run": run_table,
    "nulls": nulls_table,
}
"""Every generated text by the name that the documents know it by."""


def _section_table(section: str) -> str:
    fields = {name: field for name, field in FIELDS.items() if name.startswith(f"{section}.")}
    rows = (
        [f"`{short_name(name)}`", _values(_scalar(field).schema()), _default(field),
         "traced" if short_name(name) in MARKERS else "static", field.description or ""]
        for name, field in fields.items()
    )  # fmt: skip
    return markdown_table(("setting", "values", "default", "", "meaning"), rows)


def _scalar(field: FieldInfo) -> Scalar:
    return next(mark for mark in field.metadata if isinstance(mark, Scalar))


def _values(schema: Schema) -> str:
    """Say in words what a setting's JSON schema accepts; the text of a number or boolean goes without saying."""
    if "anyOf" in schema:
        return " or ".join(map(_values, schema["anyOf"]))
    if "enum" in schema:
        return "nothing" if None in schema["enum"] else ", ".join(f"`{name}`" for name in schema["enum"])
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if "boolean" in kinds and "string" in kinds and "number" not in kinds:
        return "true, false"
    if "boolean" in kinds and "minimum" in schema:
        return f"true, false, number {_bounds(schema)}"
    number = next((kind for kind in ("integer", "number") if kind in kinds and kinds[0] == kind), None)
    if number:
        return f"{number} {_bounds(schema)}".strip()
    return "text" if schema["pattern"] == r"^[\s\S]*$" else f"text that matches {_code(schema['pattern'])}"


def _bounds(schema: Schema) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    given = {sign: schema[name] for name, sign in signs.items() if schema.get(name) not in (None, MAX_INT, FLOAT32_MAX)}
    return ", ".join(f"{sign} {bound:g}" for sign, bound in given.items())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, range):
        return f"`{len(value)}`"
    return f"`{value}`" if value or value == 0 else "-"


def _axes(axes: Iterable[str]) -> str:
    named = [axis.replace("_", " ") for axis in axes]
    return " x ".join(named) or "run"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    sys.exit(main())
