"""`python -m bench [SUBJECT...]`: measure, append JSON lines, print the table."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.document import write_document
from bench.machine import about
from bench.process import ROOT, Failed
from bench.rows import Row, append, text_table
from bench.workload import FULL, QUICK, Scale

# Each module has `rows(scale)`, which yields its rows as they are measured.
SUBJECTS = {
    "training": "bench.training",
    "peers": "bench.peers",
    "solver": "bench.solver",
    "mixed": "bench.mixed",
    "compile": "bench.compilation",
    "memory": "bench.memory",
    "growth": "bench.growth",
    "store": "bench.store",
}
RESULTS = ROOT / "bench" / "results.jsonl"
DOCUMENT = ROOT / "docs" / "performance.md"


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = argparse.ArgumentParser(prog="python -m bench", description=__doc__, allow_abbrev=False)
    command.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"{', '.join(SUBJECTS)}; default: all")
    command.add_argument("--quick", action="store_true", help="a smoke size: that everything works, no number of use")
    command.add_argument("--out", type=Path, default=RESULTS, metavar="FILE", help="JSON lines to append to")
    command.add_argument(
        "--write-docs", action="store_true", help="measure nothing; write the table in docs/performance.md from FILE"
    )
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    command = parser()
    options = command.parse_args(arguments)
    unknown = [name for name in options.subjects if name not in SUBJECTS]
    if unknown:
        command.error(f"unknown {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    if options.write_docs:
        write_document(options.out, DOCUMENT)
        return 0
    known = about() | {"scale": "quick" if options.quick else "full"}
    rows: list[Row] = []
    with TemporaryDirectory() as cache:
        # What was compiled for an earlier benchmark does not count; within one, nothing is compiled twice.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
        for name in options.subjects or SUBJECTS:
            for row in measured(name, QUICK if options.quick else FULL):
                append([row], known, options.out)
                print(text_table([row]).splitlines()[1], file=sys.stderr, flush=True)
                rows.append(row)
    print(text_table(rows))
    return 0


def measured(name: str, scale: Scale) -> Iterator[Row]:
    """Yield the rows of a subject, and last the time that it took; what fails says so in a row of its own."""
    began = time.monotonic()
    try:
        yield from import_module(SUBJECTS[name]).rows(scale)
    except Failed as error:
        yield Row(name, {}, None, "", note=f"did not run: {error}")
    yield Row("time of the benchmark", {"subject": name}, time.monotonic() - began, "s")


if __name__ == "__main__":
    sys.exit(main())
