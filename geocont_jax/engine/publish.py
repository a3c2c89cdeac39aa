"""What is made of sweeps for readers: the document, figures, summaries and condensed stores under one folder."""

from collections.abc import Sequence
from pathlib import Path

import xarray as xr

from geocont_jax.analysis.condensed import expand
from geocont_jax.analysis.figures import draw_figures
from geocont_jax.analysis.figures_style import png
from geocont_jax.analysis.results import document, section, table_rows
from geocont_jax.analysis.summary import summarise, write_summary
from geocont_jax.engine.condensed import find_results, merge_sweeps, read_sweep
from geocont_jax.engine.condensed_file import SUFFIX, write_condensed
from geocont_jax.errors import InputError
from geocont_jax.files import write_whole


def publish(results: Sequence[str | Path], out: str | Path) -> list[Path]:
    """Write what is made of sweeps under `out` and return the files.

    These are `results.md`, and for each sweep `figures/NAME-*.png`, `results/NAME.csv` and `results/NAME.zarr.zip`.
    Sweeps whose condensed store is under `out` already are part of it: what `results` hold is merged into them, run
    by run.

    Args: `results`, results folders, condensed stores, or folders that hold several of either.

    Raises InputError where there is nothing to read, and where two sweeps of one name are not one study.

    >>> publish(["results"], "docs")  # doctest: +SKIP
    """
    out = Path(out)
    sweeps = _merged([*_stores(out), *(path for given in results for path in find_results(given))])
    if not sweeps:
        raise InputError(f"{out}: no results to publish; name a results folder that a sweep printed")
    for folder in (out / "figures", out / "results"):
        folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    sections: dict[str, str] = {}
    for name, condensed in sweeps.items():
        sections[name], files = _publish_sweep(condensed, out)
        written += files
    return [write_whole(out / "results.md", document(sections)), *written]


def _publish_sweep(condensed: xr.Dataset, out: Path) -> tuple[str, list[Path]]:
    """Write a sweep's files; return its section and the files.

    All is made from the condensed records, also where the full ones are at hand: who has only those gets the same.
    """
    dataset, name = expand(condensed), condensed.attrs["name"]
    store, table = out / "results" / f"{name}{SUFFIX}", out / "results" / f"{name}.csv"
    write_condensed(condensed, store)
    rows = summarise(dataset)
    write_summary(table_rows(rows), table)
    figures = {kind: png(figure) for kind, figure in draw_figures(dataset).items()}
    files = [write_whole(out / "figures" / f"{name}-{kind}.png", image) for kind, image in figures.items()]
    return section(dataset, rows, list(figures)), [table, store, *files]


def _merged(paths: Sequence[Path]) -> dict[str, xr.Dataset]:
    """Return the sweeps by name, those of one name merged in the order of the paths."""
    sweeps: dict[str, xr.Dataset] = {}
    origin: dict[str, Path] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        new = read_sweep(path)
        name = new.attrs["name"]
        sweeps[name] = merge_sweeps(sweeps[name], origin[name], new, path) if name in sweeps else new
        origin[name] = path
    return sweeps


def _stores(out: Path) -> list[Path]:
    return sorted((out / "results").glob(f"*{SUFFIX}"))
