"""A grid written out again: as a dict, and as the file that stands beside its results."""

import io
import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from geocont_jax.experiment.sections import SECTIONS
from geocont_jax.experiment.settings import Grid

AXES = ("sweep", "zip")
UNLIMITED = 2**31


class _Representer(SafeRepresenter):
    """Quotes every text that is not a plain word: the library's own choice does not always read back."""

    def represent_text(self, text: str) -> ScalarNode:
        word = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if word else '"')


_Representer.add_representer(str, _Representer.represent_text)


def to_yaml(grid: Grid) -> str:
    """Return the file of a grid with every default written out; reading it gives an equal grid."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = False
    yaml.width = UNLIMITED
    stream = io.StringIO()
    yaml.dump(grid_dict(grid), stream)
    return stream.getvalue()


def grid_dict(grid: Grid) -> dict[str, Any]:
    """Return a grid as the dict that `load_grid` reads, every default written out."""
    content: dict[str, Any] = {"name": grid.name, "description": grid.description}
    for section in SECTIONS:
        values = getattr(grid, section).model_dump()
        content[section] = {name: value for name, value in values.items() if value is not None}
    if any("training.steps" in axes for axes in (grid.sweep, grid.zip)):
        content["training"].pop("epochs", None)  # a default, which the axis replaces
    content |= {kind: {name: list(axis) for name, axis in getattr(grid, kind).items()} for kind in AXES}
    content["exclude"] = [dict(cell) for cell in grid.exclude]
    content["seeds"] = len(grid.seeds) if isinstance(grid.seeds, range) else list(grid.seeds)
    return content
