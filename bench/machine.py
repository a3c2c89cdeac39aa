"""The machine: what it is, and how fast it multiplies matrices today."""

import os
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from bench.process import answer, fresh, request, when_all_are_ready
from bench.rows import Row, of_repeats

VERSIONS = ("jax", "jaxlib", "torch")
REPEATS = 7


def about() -> dict[str, Any]:
    """Return machine, versions and commit, as they stand in every line of the results."""
    return fresh("bench.machine", {"what": "about"}) | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


def limit_row(size: int) -> Row:
    """Return the float32 matmul limit in GFLOP/s: the best of the libraries at hand, on all cores or the device."""
    found = fresh("bench.machine", {"what": "limit", "size": size})
    rows = [
        of_repeats("matmul limit", {"size": size, "library": name}, rates, "GFLOP/s") for name, rates in found.items()
    ]
    return max(rows, key=lambda row: row.value or 0.0)


def _about() -> dict[str, Any]:
    from geocont_jax.engine.environment import provenance

    known = provenance()
    commit = known["commit"] or ""
    return {
        "processor": known["processor"],
        "cores": known["cores"],
        "ram_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "devices": known["devices"],
        "python": known["python"],
        "versions": {name: _version(name) for name in VERSIONS},
        "commit": commit.rstrip("+"),
        "is_dirty": commit.endswith("+"),
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _matmul_rates(library: str, size: int) -> list[float]:
    """Return GFLOP/s of `size`^3 products."""
    from time import perf_counter

    multiply = MATMULS[library](size)
    multiply()
    multiply()
    rates = []
    for _ in range(REPEATS):
        began = perf_counter()
        multiply()
        rates.append(2e-9 * size**3 / (perf_counter() - began))
    return rates


def _jax_matmul(size: int) -> Any:
    import jax
    import jax.numpy as jnp

    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(jnp.matmul)
    return lambda: product(a, a).block_until_ready()


def _torch_matmul(size: int) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(size, size, device=device)

    def multiply() -> None:
        # To wait for a GPU, a number is read back.
        float((a @ a)[0, 0])

    return multiply


def _numpy_matmul(size: int) -> Any:
    import numpy as np

    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    return lambda: a @ a


MATMULS = {"jax": _jax_matmul, "torch": _torch_matmul, "numpy": _numpy_matmul}

if __name__ == "__main__":
    asked = request()
    when_all_are_ready()
    if asked["what"] == "about":
        answer(_about())
    else:
        answer({name: _matmul_rates(name, asked["size"]) for name in MATMULS if find_spec(name)})
