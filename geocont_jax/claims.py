"""`python -m geocont_jax.claims RESULTS...`: hold the claims of the papers against the records of sweeps."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geocont_jax.cli import Exit, exit_status, new_parser

if TYPE_CHECKING:
    import xarray as xr

EPILOG = """\
RESULTS: results folders that sweeps printed, condensed stores (NAME.zarr.zip), or folders that hold some of either.
A claim is tested by the sweep of a certain name, which must be there once; where it is not, the claim is undecided.
exit status: 0 whatever the verdicts are; 1 crash; 2 wrong usage or results."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = new_parser(
        "claims",
        "Say for every claim whether the records of sweeps support it, refute it or leave it undecided.",
        EPILOG,
    )
    command.add_argument("results", nargs="*", default=["results"], metavar="RESULTS",
                         help="where results are (default: results)")  # fmt: skip
    command.add_argument("--out", metavar="FILE", help="write the scoreboard to a file, in one move, not to stdout")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = parser().parse_args(arguments)
    return exit_status(lambda: _claims(options))


def _claims(options: argparse.Namespace) -> int:
    from geocont_jax.analysis.claims.render import scoreboard
    from geocont_jax.errors import InputError
    from geocont_jax.files import write_whole

    out = None if options.out is None else Path(options.out)
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it, or name another file")
    text = scoreboard(load_stores(options.results))
    if out is None:
        print(text)
    else:
        write_whole(out, text + "\n")
    return Exit.OK


def load_stores(places: Sequence[str]) -> "list[xr.Dataset]":
    """Return the records of every store at or in the places, each once, with where it is and how it came about.

    Raises InputError where a place does not exist or holds no store, and where a store cannot be read.
    """
    from geocont_jax.analysis.pretrained_records import as_runs
    from geocont_jax.engine.condensed import find_results
    from geocont_jax.engine.pretrained_store import is_pretrained, read_pretrained

    stores = list(dict.fromkeys(store.resolve() for place in places for store in find_results(place)))
    models = [read_pretrained(store).assign_attrs(folder=_shown(store)) for store in stores if is_pretrained(store)]
    sweeps = [_load(store) for store in stores if not is_pretrained(store)]
    return [*sweeps, *([as_runs(models)] if models else [])]


def _load(store: Path) -> "xr.Dataset":
    from geocont_jax.analysis.condensed import expand
    from geocont_jax.engine.condensed import read_sweep

    # Full records are condensed as well: whoever has only condensed ones gets the same scoreboard.
    return expand(read_sweep(store)).assign_attrs(folder=_shown(store))


def _shown(store: Path) -> str:
    """Return a path as short as it can be said from here."""
    return str(store.relative_to(Path.cwd())) if store.is_relative_to(Path.cwd()) else str(store)


if __name__ == "__main__":
    sys.exit(main())
