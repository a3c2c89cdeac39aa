"""What was measured of a checkpoint, on disk: a folder for its reader, and one small file to share."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import xarray as xr

from geocont_jax.analysis.figures_style import png
from geocont_jax.analysis.pretrained_figures import draw_pretrained
from geocont_jax.analysis.pretrained_table import pair_rows
from geocont_jax.analysis.summary import write_summary
from geocont_jax.engine.environment import machine, provenance
from geocont_jax.engine.zip_store import SUFFIX, read_zip
from geocont_jax.errors import InputError
from geocont_jax.files import write_whole

STORE = "continuity.zarr"
PRETRAINED_SUFFIX = f".pretrained{SUFFIX}"
KIND, STORE_VERSION = "pretrained", 1


def is_pretrained(path: Path) -> bool:
    """Return whether a path is what `analyze` left behind: its folder, or the small file made of it."""
    return path.name.endswith(PRETRAINED_SUFFIX) or (path / STORE).is_dir()


def write_pretrained(dataset: xr.Dataset, folder: Path) -> list[Path]:
    """Write what was measured into its folder and return the files: the store, a CSV, figures."""
    new, store = folder / f"{STORE}.new", folder / STORE
    shutil.rmtree(new, ignore_errors=True)
    dataset.to_zarr(new, mode="w", zarr_format=2, consolidated=True)
    shutil.rmtree(store, ignore_errors=True)
    new.rename(store)
    table = folder / "continuity.csv"
    write_summary(pair_rows(dataset), table)
    (folder / "figures").mkdir(exist_ok=True)
    figures = {kind: png(figure) for kind, figure in draw_pretrained(dataset).items()}
    return [store, table, *(write_whole(folder / "figures" / f"{kind}.png", image) for kind, image in figures.items())]


def origin(command: str) -> dict[str, str]:
    """Return by what, where and when a checkpoint was measured, with which versions, as attributes to read."""
    about = provenance()
    versions = {name: version for name, version in about["versions"].items() if version is not None}
    return {
        "command": command,
        "geocont_jax": versions.get("geocont_jax", ""),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "commit": about["commit"] or "",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(about),
    }


def read_pretrained(path: Path) -> xr.Dataset:
    """Return what was measured of a checkpoint, in memory.

    Raises InputError where it cannot be read, and where another version wrote it.
    """
    if path.name.endswith(PRETRAINED_SUFFIX):
        dataset = read_zip(path)
    else:
        try:
            dataset = xr.open_zarr(path / STORE).load().drop_encoding()
        except (OSError, ValueError, KeyError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{path / STORE}: cannot be read ({reason}); give the analyze command again") from error
    if dataset.attrs.get("kind") != KIND or dataset.attrs.get("store_version") != STORE_VERSION:
        found = dataset.attrs.get("store_version")
        raise InputError(f"{path}: written in store format {found}, this version reads {STORE_VERSION}; analyze again")
    return dataset
