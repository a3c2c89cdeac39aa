"""The grid file's JSON schema, for editors: `sweeps/grid.schema.json`."""

import json
from typing import Any

from geocont_jax.experiment.settings import Grid


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of grid files; it accepts all that the reader does."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "geocont_jax grid",
        **_without_titles(Grid.model_json_schema()),
    }


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(json_schema(), indent=2, allow_nan=False) + "\n"


def _without_titles(node: Any) -> Any:
    """Drop the titles that pydantic makes of names: they hide descriptions in editors."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_titles(value) for key, value in node.items() if key != "title" or not isinstance(value, str)}
