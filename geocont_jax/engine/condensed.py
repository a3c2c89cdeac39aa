"""Sweeps in small, with where their runs come from: made of results folders, read from files, merged."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.condensed import condense, merge, source_attrs
from geocont_jax.engine.environment import machine
from geocont_jax.engine.pretrained_store import is_pretrained
from geocont_jax.engine.store import is_results, load_results
from geocont_jax.engine.zip_store import SUFFIX, is_condensed, read_condensed
from geocont_jax.errors import InputError
from geocont_jax.experiment.grid import variant_label

SMOKE = "-smoke"


def find_results(place: str | Path) -> list[Path]:
    """Return the results that a path stands for: itself, or what the folder holds but for trials in smoke mode.

    Results are what sweeps and analyses of checkpoints left behind, and the small stores made of them.

    Raises InputError where there are none.
    """
    place = Path(place)
    place = place.parent if place.name == "records.zarr" else place
    if _holds_results(place):
        return [place]
    if not place.exists():
        raise InputError(f"{place}: no such folder; run a sweep first, or say where results are")
    entries = sorted(place.iterdir()) if place.is_dir() else []
    inside = [path for path in entries if _holds_results(path)]
    found = [path for path in inside if SMOKE not in path.name]
    if not found:
        trials = " but smoke runs, which have to be named themselves" if inside else ""
        raise InputError(f"{place}: no results in it{trials}; give folders that sweeps printed, or *{SUFFIX} files")
    return found


def _holds_results(path: Path) -> bool:
    return is_condensed(path) or is_results(path) or is_pretrained(path)


def read_sweep(path: str | Path) -> xr.Dataset:
    """Return the condensed records of a results folder, with where they come from, or of a condensed store.

    Raises InputError where there are none, or where another version wrote them.
    """
    path = Path(path)
    if is_condensed(path):
        return read_condensed(path)
    condensed = condense(load_results(path)).drop_encoding()
    source = np.zeros(condensed.sizes["run"], np.int32)
    attrs = source_attrs([folder_source(path)])
    return condensed.assign_coords(source=("run", source)).assign_attrs(attrs)


def merge_sweeps(old: xr.Dataset, old_path: Path, new: xr.Dataset, new_path: Path) -> xr.Dataset:
    """Return two condensed sweeps as one (`merge`); the paths are for the error.

    Raises InputError where their runs do not share their base settings.
    """
    hashes = [part.attrs.get("spec_hash") for part in (old, new)]
    if hashes[0] != hashes[1]:
        raise InputError(
            f"{new_path}: {new.attrs['name']} with base settings {hashes[1]}, but {old_path} holds settings "
            f"{hashes[0]} under that name; give one of them, and the other with another --out"
        )
    return merge(old, new, variant_label)


def folder_source(folder: Path) -> dict[str, Any]:
    """Return commit, date, machine, versions and command of a results folder, from its manifest; empty without one.

    What differed between the sessions that filled the folder is listed, in order.
    """
    try:
        sessions = json.loads((folder / "manifest.json").read_text())["sessions"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    days = sorted(str(session.get("started", ""))[:10] for session in sessions)
    versions = {name: None for session in sessions for name in session.get("versions", {})}
    return {
        "commit": _listed(session.get("commit") for session in sessions),
        "date": _listed([*days[:1], *days[-1:]], " to "),
        "machine": _listed(map(machine, sessions)),
        "versions": {name: _listed(session.get("versions", {}).get(name) for session in sessions) for name in versions},
        "command": _listed(map(_command, sessions), "; "),
    }


def _listed(values: Iterable[Any], separator: str = ", ") -> str:
    return separator.join(dict.fromkeys(str(value) for value in values if value))


def _command(session: Mapping[str, Any]) -> str:
    """Return the command that anyone can give, of the one that was given here; empty for a run from Python."""
    program, _, arguments = str(session.get("command", "")).partition("sweep.py ")
    if not arguments or re.search(r"\s", program):
        return ""
    arguments = re.sub(r"(^|\s)(--quiet|--fail-fast|--(out|require)[ =]\S+)", "", arguments)
    arguments = re.sub(r"(^|\s)/\S*/(sweeps/\S+)", r"\1\2", arguments)
    return f"python -m geocont_jax.sweep {arguments.strip()}"
