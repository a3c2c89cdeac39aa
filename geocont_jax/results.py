"""`python -m geocont_jax.results RESULTS...`: make tables, figures and a small store of what sweeps left behind."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

EXIT_OK, EXIT_CRASH, EXIT_INPUT = 0, 1, 2
DEFAULT_RESULTS = "results"

EPILOG = """\
DIR/results.md has a section for each sweep, with its table and figures; DIR/results/NAME.csv the numbers of the table,
DIR/results/NAME.zarr.zip the records with layers averaged. Sweeps whose NAME.zarr.zip is there already stay part of
the document, and new runs are merged into them: a study can go on on another machine. Without RESULTS and without a
folder `results`, all is made again from the stores in DIR.
exit status: 0 written; 1 crash; 2 wrong usage or results."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = argparse.ArgumentParser(
        prog="python -m geocont_jax.results",
        description="Make a document with tables and figures, and a small store, of the results of sweeps.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("results", nargs="*", metavar="RESULTS",
                         help="results folders as sweeps print them, NAME.zarr.zip files, or folders that hold several "
                         f"(their smoke runs are left out); default: {DEFAULT_RESULTS}")  # fmt: skip
    command.add_argument("--out", default="docs", metavar="DIR", help="where to write (default: docs)")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = parser().parse_args(arguments)
    from geocont_jax.engine.publish import publish
    from geocont_jax.errors import InputError

    results = options.results or [name for name in (DEFAULT_RESULTS,) if Path(name).is_dir()]
    try:
        written = publish(results, options.out)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_INPUT
    except OSError as error:
        print(f"error: {error}; files that were written are whole, give the command again", file=sys.stderr)
        return EXIT_CRASH
    print("\n".join(f"wrote {path}" for path in written))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
