"""Which way to leading singular vectors is the quickest on the device at hand: found by trying them."""

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from geocont_jax.geometry.leading import block_size, fresh_directions, leading_triplets, renewed
from geocont_jax.geometry.spectra import decompose
from geocont_jax.training.program import Solver
from geocont_jax.training.state import LEADING

REPEATS = 3


@lru_cache(maxsize=16)
def quickest_solver(num_matrices: int, d_out: int, d_in: int) -> Solver:
    """Return the solver that finds the leading vectors of so many matrices soonest, compilation left aside.

    The matrices have one direction that stands out, as trained ones do, and the fast solver starts where it was with
    them, as it does at every record but the first.
    """
    noise = jax.random.normal(jax.random.key(0), (num_matrices, d_out, d_in))
    matrices = noise + 4.0 * jnp.full(noise.shape, d_in**-0.5)  # of norm 4 sqrt(d_out), the noise's about half of it
    fresh = fresh_directions(noise, block_size(LEADING, min(d_out, d_in)))
    start = renewed(leading_triplets(matrices, fresh, LEADING).basis, fresh)
    ways: dict[Solver, Callable[[Any, Any], Any]] = {
        "exact": lambda matrices, start: decompose(matrices),
        "gram": lambda matrices, start: decompose(matrices, "gram"),
        "fast": partial(leading_triplets, k=LEADING),
    }
    return min(ways, key=lambda name: _seconds(ways[name], matrices, start))


def _seconds(way: Callable[[Any, Any], Any], matrices: Any, start: Any) -> float:
    run = jax.jit(way)
    jax.block_until_ready(run(matrices, start))
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(run(matrices, start))
        times.append(time.perf_counter() - began)
    return min(times)
