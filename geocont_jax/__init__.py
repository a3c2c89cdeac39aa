"""Geometry of trained networks: which ingredient makes neighbouring layers line up, and how sure are we?

`run_sweep` runs a grid of training runs as one compiled JAX program; `load_results` reads what one left on
disk. Importing this package imports nothing else, sets no JAX flag and prints nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geocont_jax.engine.environment import prepare_process
    from geocont_jax.engine.runner import run_sweep
    from geocont_jax.engine.store import load_results
    from geocont_jax.errors import InputError

__all__ = ["InputError", "load_results", "prepare_process", "run_sweep"]

_HOMES = {
    "InputError": "geocont_jax.errors",
    "load_results": "geocont_jax.engine.store",
    "prepare_process": "geocont_jax.engine.environment",
    "run_sweep": "geocont_jax.engine.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
