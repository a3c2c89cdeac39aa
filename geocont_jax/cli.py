"""What the commands share: how they parse, and which exit status an error has."""

import argparse
import sys
from collections.abc import Callable
from enum import IntEnum

from geocont_jax.errors import InputError


class Exit(IntEnum):
    """Exit statuses, the same for every command."""

    OK = 0
    CRASH = 1
    INPUT = 2
    DIVERGED = 3
    INTERRUPTED = 130


def new_parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m geocont_jax.NAME`; options are not abbreviated."""
    return argparse.ArgumentParser(
        prog=f"python -m geocont_jax.{name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def exit_status(action: Callable[[], int], after_os_error: str = "") -> int:
    """Run a command's action; say a wrong input or a file that fails in one line, and return the exit status."""
    try:
        return action()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return Exit.INPUT
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except OSError as error:
        print(f"error: {error}{after_os_error}", file=sys.stderr)
        return Exit.CRASH
