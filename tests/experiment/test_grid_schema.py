"""The JSON schema that editors use: it says what the reader says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from geocont_jax.errors import InputError
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.schema import json_schema, schema_text
from geocont_jax.experiment.sections import AXIS_NAMES

SCHEMA_FILE = Path(__file__).parents[2] / "sweeps" / "grid.schema.json"
SCHEMA = json_schema()
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "integer": int,
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Check a value against the part of JSON schema that ours uses."""
    if "$ref" in schema:
        return accepts(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], value)
    if "anyOf" in schema:
        return any(accepts(option, value) for option in schema["anyOf"])
    if "enum" in schema:
        return any(value == option and type(value) is type(option) for option in schema["enum"])
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return any(_is(value, name) for name in names) and _fits(schema, value)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _fits(schema: dict[str, Any], value: Any) -> bool:
    if isinstance(value, dict):
        known = schema["properties"]
        return set(schema.get("required", ())) <= value.keys() and all(
            name in known and accepts(known[name], inner) for name, inner in value.items()
        )
    if isinstance(value, list):
        repeated = schema.get("uniqueItems") and len(set(value)) < len(value)
        return len(value) >= schema.get("minItems", 0) and not repeated and all(
            accepts(schema["items"], inner) for inner in value
        )  # fmt: skip
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    return isinstance(value, bool) or (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and not value <= schema.get("exclusiveMinimum", value - 1)
        and not value >= schema.get("exclusiveMaximum", value + 1)
    )


EXAMPLES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"description": "why"}, True),
    ({"model": {"residual": True, "depth": 3, "bias": False, "init": "he", "init_scale": 0.3}}, True),
    ({"model": {"residual": 0.5}}, True),
    ({"model": {"residual": "on", "bias": "No", "depth": "3", "init_scale": "1.e-3"}}, True),
    ({"model": {"residual": 2}}, False),
    ({"model": {"depth": 1}}, False),
    ({"model": {"depth": "010"}}, False),
    ({"model": {"depth": True}}, False),
    ({"model": {"activation": "rleu"}}, False),
    ({"model": {"activation": None}}, False),
    ({"model": {"activatoin": "relu"}}, False),
    ({"model": {"init_scale": 0}}, False),
    ({"model": {"init_scale": "big"}}, False),
    ({"model": []}, False),
    ({"data": {"name": "npz:a.npz", "dir": None}}, True),
    ({"data": {"name": "cifar10", "dir": "/data", "batch_size": 1}}, True),
    ({"data": {"name": "npz:"}}, False),
    ({"training": {"beta2": 1}}, False),
    ({"training": {"beta2": 0, "steps": 3}}, True),
    ({"measure": {"every": 200}}, True),
    ({"measure": {"every": "epoch", "svd": "exact"}}, True),
    ({"measure": {"every": "epochs"}}, False),
    ({"seeds": 3}, True),
    ({"seeds": [3, 7]}, True),
    ({"seeds": 0}, False),
    ({"seeds": []}, False),
    ({"seeds": [1, 1]}, False),
    ({"seeds": [-1]}, False),
    ({"seeds": [2**32]}, False),
    ({"sweep": {"model.width": [8, 16]}}, True),
    ({"sweep": {"model.width": []}}, False),
    ({"sweep": {"model.width": 8}}, False),
    ({"sweep": {"width": [8]}}, False),
    ({"sweep": {"model.kind": ["residual_mlp"]}}, False),
    ({"sweep": {"model.width": [8, 9]}, "exclude": [{"model.width": 8}]}, True),
    ({"sweep": {"model.width": [8, 9]}, "exclude": [{"width": 8}]}, False),
    ({"zip": {"model.width": [8, 9], "model.init_scale": [1, 0.5]}}, True),
    ({"width": 8}, False),
]


@pytest.mark.parametrize(("content", "good"), EXAMPLES)
def test_schema_and_reader_agree(content: dict[str, Any], good: bool) -> None:
    grid = {"name": "x"} | content
    assert accepts(SCHEMA, grid) == good
    if good:
        load_grid(grid)
    else:
        with pytest.raises(InputError):
            load_grid(grid)


def test_a_grid_needs_a_name() -> None:
    assert not accepts(SCHEMA, {"seeds": 3})


def test_every_object_is_closed_and_every_axis_is_known() -> None:
    objects = [SCHEMA, *SCHEMA["$defs"].values()]
    assert all(found["additionalProperties"] is False for found in objects)
    for name in ("Sweep", "Zip", "Cell"):
        assert tuple(SCHEMA["$defs"][name]["properties"]) == AXIS_NAMES


def test_the_published_schema_is_current() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == SCHEMA, "write it with geocont_jax.experiment.schema.schema_text()"
    assert SCHEMA_FILE.read_text() == schema_text()
