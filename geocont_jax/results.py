"""`python -m geocont_jax.results RESULTS...`: make tables, figures and a small store of what sweeps left behind."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from geocont_jax.cli import Exit, exit_status, new_parser

DEFAULT_RESULTS = "results"

EPILOG = """\
DIR/results.md has a section for each sweep, with its table and figures; DIR/results/NAME.csv the numbers of the table,
DIR/results/NAME.zarr.zip the records with layers averaged. Sweeps whose NAME.zarr.zip is there already stay part of
the document, and new runs are merged into them: a study can go on on another machine. Without RESULTS and without a
folder `results`, all is made again from the stores in DIR.
exit status: 0 written; 1 crash; 2 wrong usage or results."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = new_parser(
        "results",
        "Make a document with tables and figures, and a small store, of the results of sweeps.",
        EPILOG,
    )
    command.add_argument("results", nargs="*", metavar="RESULTS",
                         help="results folders as sweeps print them, NAME.zarr.zip files, or folders that hold several "
                         f"(their smoke runs are left out); default: {DEFAULT_RESULTS}")  # fmt: skip
    command.add_argument("--out", default="docs", metavar="DIR", help="where to write (default: docs)")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = parser().parse_args(arguments)
    return exit_status(lambda: _results(options), "; files that were written are whole, give the command again")


def _results(options: argparse.Namespace) -> int:
    from geocont_jax.engine.publish import publish

    results = options.results or [name for name in (DEFAULT_RESULTS,) if Path(name).is_dir()]
    print("\n".join(f"wrote {path}" for path in publish(results, options.out)))
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
