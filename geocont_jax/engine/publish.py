"""What is made of results for readers: documents, figures, summaries and small stores under one folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr

from geocont_jax.analysis.condensed import expand
from geocont_jax.analysis.figures import draw_figures
from geocont_jax.analysis.figures_style import png
from geocont_jax.analysis.pretrained_document import pretrained_document
from geocont_jax.analysis.pretrained_figures import draw_pretrained
from geocont_jax.analysis.pretrained_table import pair_rows
from geocont_jax.analysis.results import document, section, table_rows
from geocont_jax.analysis.summary import summarise, write_summary
from geocont_jax.engine.condensed import find_results, merge_sweeps, read_sweep
from geocont_jax.engine.pretrained_store import PRETRAINED_SUFFIX, is_pretrained, read_pretrained
from geocont_jax.engine.zip_store import SUFFIX, write_zip
from geocont_jax.errors import InputError
from geocont_jax.files import write_whole


def publish(results: Sequence[str | Path], out: str | Path) -> list[Path]:
    """Write what is made of sweeps and of analyses of checkpoints under `out` and return the files.

    Of sweeps these are `results.md`, and for each `figures/NAME-*.png`, `results/NAME.csv` and
    `results/NAME.zarr.zip`; of checkpoints `pretrained.md` and the same with `NAME.pretrained`. What has its small
    store under `out` already is part of it: what `results` hold of a sweep is merged into it, run by run, and a
    checkpoint that was analysed again takes the place of the former analysis.

    Args: `results`, folders that `sweep` or `analyze` printed, small stores, or folders that hold several of them.

    Raises InputError where there is nothing to read, and where two sweeps of one name are not one study.

    >>> publish(["results"], "docs")  # doctest: +SKIP
    """
    out = Path(out)
    paths = [*_stores(out), *(path for given in results for path in find_results(given))]
    sweeps = _merged([path for path in paths if not is_pretrained(path)])
    checkpoints = {found.attrs["name"]: found for found in map(read_pretrained, filter(is_pretrained, paths))}
    if not sweeps and not checkpoints:
        raise InputError(f"{out}: no results to publish; name a results folder that a sweep printed")
    for folder in (out / "figures", out / "results"):
        folder.mkdir(parents=True, exist_ok=True)
    return [*_publish_sweeps(sweeps, out), *_publish_checkpoints(checkpoints, out)]


def _publish_sweeps(sweeps: Mapping[str, xr.Dataset], out: Path) -> list[Path]:
    written: list[Path] = []
    sections: dict[str, str] = {}
    for name, condensed in sweeps.items():
        sections[name], files = _publish_sweep(condensed, out)
        written += files
    return [write_whole(out / "results.md", document(sections)), *written] if sweeps else []


def _publish_checkpoints(checkpoints: Mapping[str, xr.Dataset], out: Path) -> list[Path]:
    """Write the document of checkpoints, with a figure of each kind, a CSV and a small store of each."""
    written: list[Path] = []
    links: dict[str, dict[str, str]] = {}
    for name, dataset in checkpoints.items():
        store, table = out / "results" / f"{name}{PRETRAINED_SUFFIX}", out / "results" / f"{name}.pretrained.csv"
        write_zip(dataset, store)
        write_summary(pair_rows(dataset), table)
        figures = draw_pretrained(dataset)
        links[name] = {kind: f"figures/{name}.pretrained-{kind}.png" for kind in figures}
        images = [write_whole(out / links[name][kind], png(figure)) for kind, figure in figures.items()]
        written += [store, table, *images]
    text = pretrained_document(list(checkpoints.values()), links)
    return [write_whole(out / "pretrained.md", text), *written] if checkpoints else []


def _publish_sweep(condensed: xr.Dataset, out: Path) -> tuple[str, list[Path]]:
    """Write a sweep's files; return its section and the files.

    All is made from the condensed records, also where the full ones are at hand: who has only those gets the same.
    """
    dataset, name = expand(condensed), condensed.attrs["name"]
    store, table = out / "results" / f"{name}{SUFFIX}", out / "results" / f"{name}.csv"
    write_zip(condensed, store)
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
