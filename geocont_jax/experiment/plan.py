"""Which runs share a compiled program."""

from collections.abc import Sequence
from dataclasses import dataclass

from geocont_jax.experiment.grid import Run
from geocont_jax.experiment.settings import Settings, static_half


@dataclass(frozen=True)
class Group:
    """The runs that one program serves: `static` is their settings with None for the traced ones."""

    static: Settings
    runs: tuple[Run, ...]


def group_runs(runs: Sequence[Run]) -> tuple[Group, ...]:
    """Group runs by the static half of their settings, in order of first appearance."""
    members: dict[Settings, list[Run]] = {}
    for run in runs:
        members.setdefault(static_half(run.settings), []).append(run)
    return tuple(Group(static, tuple(group)) for static, group in members.items())
