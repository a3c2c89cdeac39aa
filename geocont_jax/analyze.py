"""`python -m geocont_jax.analyze PATH`: measure the continuity of a pretrained checkpoint."""

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from geocont_jax.cli import Exit, exit_status, new_parser

DEFAULT_OUT = "results"

EPILOG = """\
PATH: a folder with a model, a .safetensors file, a *.safetensors.index.json, a .gguf file, or hf:org/name.
DIR/NAME holds continuity.zarr (everything, for xarray), continuity.csv, figures and parts; the same command goes on
where it stopped, and a matrix that is done is not done again.
exit status: 0 measured; 1 crash; 2 wrong usage or checkpoint; 130 interrupted after saving."""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    command = new_parser(
        "analyze",
        "Measure how the weight matrices of a pretrained model's neighbouring layers line up; no forward pass.",
        EPILOG,
    )
    command.add_argument("path", metavar="PATH", help="the checkpoint; see below")
    command.add_argument("--describe", action="store_true", help="print what would be paired, and stop")
    command.add_argument("--out", default=DEFAULT_OUT, metavar="DIR",
                         help=f"where the folder NAME goes (default: {DEFAULT_OUT})")  # fmt: skip
    command.add_argument("--name", metavar="NAME", help="what to call the model (default: what the checkpoint says)")
    command.add_argument("--projections", type=_projections, metavar="q,k,...", default=None,
                         help="which of q, k, v, o, gate, up, down (default: all that there are)")  # fmt: skip
    command.add_argument("--layers", type=_layers, metavar="A:B", help="layers from A to before B (default: all)")
    command.add_argument("--top-k", type=_positive, default=16, metavar="K",
                         help="leading vectors of each matrix to keep in DIR/NAME/parts (default: 16)")  # fmt: skip
    command.add_argument("--max-gap", type=_positive, metavar="N", help="largest distance in depth (default: all)")
    command.add_argument("--window", type=_window, default=8, metavar="N",
                         help="how many layers share a basis (default: 8; 0: leave shared bases out)")  # fmt: skip
    command.add_argument("--per-head", action="store_true", help="continuity of the heads of q, k, v and o as well")
    command.add_argument("--fold-norms", action="store_true", help="the gain of the norm before a reader is part of it")
    command.add_argument("--dtype", choices=["float32", "float64"], default="float32",
                         help="precision of the computation (default: float32)")  # fmt: skip
    command.add_argument("--quiet", action="store_true", help="no progress on stderr, only warnings")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(arguments)
    from geocont_jax.engine.environment import keep_compiled_programs, keep_freed_memory, prepare_process

    keep_compiled_programs()
    keep_freed_memory()
    prepare_process(num_devices=1)
    return exit_status(
        lambda: _analyze(options, arguments), "; what was saved is safe, the same command goes on from there"
    )


def _analyze(command: argparse.Namespace, arguments: Sequence[str]) -> int:
    from geocont_jax.analysis.pretrained_table import format_pretrained
    from geocont_jax.engine.environment import describe_backend, use_float64
    from geocont_jax.engine.pretrained_store import origin, write_pretrained
    from geocont_jax.files import held
    from geocont_jax.pretrained.checkpoint import open_checkpoint
    from geocont_jax.pretrained.describe import describe
    from geocont_jax.pretrained.roles import find_roles
    from geocont_jax.pretrained.walk import Options, analyze, select
    from geocont_jax.progress import Reporter

    asked = {field.name: getattr(command, field.name) for field in fields(Options)}
    options = Options(**{name: value for name, value in asked.items() if value is not None})
    checkpoint = open_checkpoint(command.path)
    model = select(find_roles(checkpoint, command.name), options)
    if command.describe:
        print(describe(checkpoint, model, options))
        return Exit.OK
    if options.dtype == "float64":
        use_float64()
    reporter = Reporter(command.quiet)
    reporter.say(f"geocont_jax on {describe_backend()}")
    folder = Path(command.out) / model.name
    with held(folder):
        dataset = analyze(checkpoint, model, options, folder, reporter)
        dataset = dataset.assign_attrs(origin(_shown(command.path, arguments)))
        write_pretrained(dataset, folder)
    print(format_pretrained(dataset))
    print(f"results: {folder}")
    return Exit.OK


def _shown(path: str, arguments: Sequence[str]) -> str:
    """Return the command that anyone can give: with the checkpoint's name for its place, and no --out.

    >>> _shown("/disk/models/tiny", ["/disk/models/tiny", "--layers", "0:4", "--out", "here"])
    'python -m geocont_jax.analyze tiny --layers 0:4'
    """
    name = path if path.startswith("hf:") else Path(path).resolve().name
    text = shlex.join(name if argument == path else argument for argument in arguments)
    return "python -m geocont_jax.analyze " + re.sub(r" --(quiet|(out|name)[ =]\S+)", "", text)


def _projections(text: str) -> tuple[str, ...]:
    from geocont_jax.pretrained.projections import PROJECTIONS

    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in PROJECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; there are {', '.join(PROJECTIONS)}")
    return tuple(name for name in PROJECTIONS if name in names)


def _layers(text: str) -> tuple[int, int]:
    start, colon, stop = text.partition(":")
    if not colon or not start.isdecimal() or not stop.isdecimal() or int(start) >= int(stop):
        raise argparse.ArgumentTypeError(f"{text}: two layer numbers are needed, as in 0:16 (layers 0 to 15)")
    return int(start), int(stop)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _window(text: str) -> int:
    number = _at_least(0, text)
    if number == 1:
        raise argparse.ArgumentTypeError("a window of one layer shares nothing; give 2 or more, or 0 for none")
    return number


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text}: a whole number of at least {least} is needed")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
