"""What makes two runs, or two grids, the same: hashes of their resolved settings."""

import json
from functools import cache
from hashlib import sha256
from typing import Any

from geocont_jax.experiment.sections import Section
from geocont_jax.experiment.settings import Settings, settings_by_name

# Part of every hash. Raise it when a setting of the same name and value comes to mean another computation, and when
# a default changes.
FORMAT_VERSION = 2


def canonical(settings: Settings) -> str:
    """Return the text that is equal for two runs' settings just when they are the same.

    Settings have one canonical value each (true for a residual of 1.0) and floats are written as Python does,
    shortest form that reads back exactly. `data.dir` is left out: where files lie does not change a run. So are
    values that are the default: runs keep their identity when this package gets a new setting.
    """
    values = settings_by_name(settings).items()
    default = _defaults(type(settings.model))
    told = {name: value for name, value in values if name == "kind" or value != default[name]}
    return json.dumps({"format": FORMAT_VERSION} | told, sort_keys=True, allow_nan=False)


@cache
def _defaults(model: type[Section]) -> dict[str, Any]:
    return settings_by_name(Settings(model=model()))  # type: ignore[arg-type]


def run_identity(settings: Settings, seed: int) -> str:
    """Return the run's name in any store, whatever grid it came from: 16 hexadecimal digits.

    >>> run_identity(Settings(), 0) == run_identity(Settings(), 1)
    False
    """
    return seeded_identity(canonical(settings), seed)


def seeded_identity(settings: str, seed: int) -> str:
    """Return `run_identity` from settings that are in canonical form already."""
    return sha256(f"{settings}{seed}".encode()).hexdigest()[:16]


def grid_hash(grid: Settings) -> str:
    """Return the hash of what the runs of a grid share, 8 hexadecimal digits.

    Axes, seeds and texts are no part of it: a grid with more values or seeds finds the runs it already has.
    """
    return sha256(canonical(grid).encode()).hexdigest()[:8]
