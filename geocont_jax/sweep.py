"""`python -m geocont_jax.sweep GRID.yaml`: run a grid, print its table and where the results are."""

import argparse
import json
import sys
from collections.abc import Sequence

from geocont_jax.cli import Exit, exit_status, new_parser

EPILOG = """\
seeds: in the grid file, `seeds: 3` is a count (0, 1, 2) and `seeds: [3]` is the one seed 3.
exit status: 0 all runs finite; 1 crash; 2 wrong usage, grid file or data; 3 finished with diverged or unfinished
runs; 130 interrupted after saving. The same command always goes on where it was."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = new_parser(
        "sweep",
        "Run a grid of training runs as one compiled program and say how sure the result is.",
        EPILOG,
    )
    command.add_argument("grid", nargs="?", help="the grid file (YAML); see sweeps/ for examples")
    command.add_argument("--out", default="results", metavar="DIR", help="where results folders go (default: results)")
    command.add_argument("--dry-run", action="store_true", help="print programs, runs, memory and time; write nothing")
    command.add_argument("--smoke", action="store_true", help="the same code path on a tiny network for a few steps")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
                         help="override a setting, e.g. model.width=64 or seeds=5; repeatable")  # fmt: skip
    command.add_argument("--max-cells", type=_positive, metavar="N", help="allow more runs than 10,000")
    command.add_argument("--require", choices=["cpu", "gpu", "tpu"], help="stop unless JAX has this kind of device")
    command.add_argument("--fail-fast", action="store_true", help="save and stop when the first run diverges")
    command.add_argument("--quiet", action="store_true", help="no progress on stderr, only warnings")
    command.add_argument("--schema", action="store_true", help="print the grid file's JSON schema and exit")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    command = parser()
    options = command.parse_args(arguments)
    if options.grid is None and not options.schema:
        command.error("a grid file is needed, for example sweeps/quickstart.yaml")
    from geocont_jax.engine.environment import keep_compiled_programs, prepare_process

    keep_compiled_programs()
    prepare_process()

    def action() -> int:
        return _print_schema() if options.schema else _sweep(options)

    return exit_status(action, "; what was saved is safe, the same command goes on from there")


def _sweep(options: argparse.Namespace) -> int:
    from geocont_jax.analysis.table import format_table
    from geocont_jax.engine.environment import require_backend
    from geocont_jax.engine.runner import MAX_CELLS, plan_sweep, run_sweep
    from geocont_jax.experiment.reader import load_grid
    from geocont_jax.experiment.smoke import smoke
    from geocont_jax.progress import Reporter

    if options.require:
        require_backend(options.require)
    grid = load_grid(options.grid, options.overrides)
    if options.smoke:
        grid = smoke(grid)
    reporter, max_cells = Reporter(options.quiet), options.max_cells or MAX_CELLS
    if options.dry_run:
        print(plan_sweep(grid, max_cells=max_cells, reporter=reporter))
        return Exit.OK
    records = run_sweep(grid, options.out, max_cells=max_cells, fail_fast=options.fail_fast, reporter=reporter)
    print(format_table(records))
    print(f"results: {records.attrs['folder']}")
    return Exit.OK if (records["status"] == "ok").all() else Exit.DIVERGED


def _print_schema() -> int:
    from geocont_jax.experiment.schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return Exit.OK


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
