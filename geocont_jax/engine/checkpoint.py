"""Checkpoints of the runs in flight, through orbax.

A checkpoint is host arrays with a leading run axis and the identity of each run beside them, so it can be
resumed on another number of devices, in other company. It holds plain arrays only (no PRNG keys: a run's
randomness follows from its seed).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

KEEP = 2


@dataclass(frozen=True)
class Saved:
    """Runs as they were after `step` steps, with `num_records` records each in the store."""

    identities: tuple[str, ...]
    program: str
    step: int
    num_records: int
    state: Any


class CheckpointFolder:
    """The checkpoints of a sweep. Only the latest two are kept; each is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        options = ocp.CheckpointManagerOptions(max_to_keep=KEEP, cleanup_tmp_directories=True)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)
        self._folder = folder
        self._number = max(self._manager.all_steps(), default=-1) + 1

    def save(self, saved: Saved) -> None:
        """Write a checkpoint in the background; a later call or `close` waits for it."""
        about = {
            "identities": list(saved.identities),
            "program": saved.program,
            "step": saved.step,
            "num_records": saved.num_records,
            "types": _types(saved.state),
        }
        arguments = ocp.args.Composite(state=ocp.args.StandardSave(saved.state), about=ocp.args.JsonSave(about))
        self._manager.save(self._number, args=arguments)
        self._number += 1

    def latest(self, templates: Callable[[str, int], Any | None], warn: Callable[[str], None]) -> Saved | None:
        """Return the newest checkpoint that can be read, or None; say of each damaged one that it is skipped.

        `templates(program, num_runs)` gives the expected shapes, None where that program is not asked for.
        """
        for number in sorted(self._manager.all_steps(), reverse=True):
            try:
                return self._read(number, templates)
            except Exception as error:  # orbax raises many kinds for many ways to be damaged
                reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
                warn(f"{self._folder / str(number)}: checkpoint skipped, it cannot be read ({reason})")
        return None

    def _read(self, number: int, templates: Callable[[str, int], Any | None]) -> Saved | None:
        only_about = ocp.args.Composite(about=ocp.args.JsonRestore())
        about = self._manager.restore(number, args=only_about)["about"]
        identities = tuple(about["identities"])
        template = templates(about["program"], len(identities))
        if template is None:
            return None
        if _types(template) != about["types"]:
            raise ValueError("it holds arrays of other shapes or types")
        host = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), template)
        arguments = ocp.args.Composite(state=ocp.args.StandardRestore(host))
        state = self._manager.restore(number, args=arguments)["state"]
        return Saved(identities, about["program"], about["step"], about["num_records"], state)

    def clear(self) -> None:
        """Remove all checkpoints: the runs they hold are finished."""
        self._manager.wait_until_finished()
        for number in self._manager.all_steps():
            self._manager.delete(number)

    def close(self) -> None:
        """Wait for what is being written, and let go of the folder."""
        self._manager.wait_until_finished()
        self._manager.close()


def take_rows(tree: Any, rows: Sequence[int] | np.ndarray) -> Any:
    """Return the given rows of every array's leading run axis."""
    return jax.tree.map(lambda x: np.asarray(x)[np.asarray(rows)], tree)


def _types(tree: Any) -> list[str]:
    return [f"{x.shape[1:]} {np.dtype(x.dtype)}" for x in jax.tree.leaves(tree)]
