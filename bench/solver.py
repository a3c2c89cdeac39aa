"""Leading singular vectors: exact SVD, Gram + eigh and the fast solver on the same stacks, and what a record costs.

A process of its own for the stacks: `python -m bench.solver '{"side": 256, "matrices": [16], "repeats": 5}'`, pinned to
one core, which is what a device of a sweep has.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from bench.machine import about, limit_row
from bench.process import answer, fresh, request, when_all_are_ready
from bench.rows import Row, of_repeats
from bench.sweeps import ours, training_job
from bench.workload import Scale

K = 1  # triplets, as in a sweep
MOVED = 0.003  # between two records: the tenth part of an initial entry's standard deviation
# The power by which the singular values that training has added fall off.
POWERS = (0.5, 1.0)
TRAINED_GOAL = ">= 20"
ERROR_GOAL = "<= 0.0001"
RECORD_GOAL = "<= 5"
# A record that costs no more than a few steps evaluates no more than a batch or two.
LEAN = {"svd": "fast", "examples": 128, "test_examples": 128}

Found = dict[str, Any]


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the times of every method on every stack, the fast solver's gain and error, and the cost of a record."""
    is_accelerated = set(about()["devices"]) != {"cpu"}
    asked = {"side": scale.network.width, "matrices": scale.stacks, "repeats": scale.num_calls}
    for one in fresh("bench.solver", asked | {"core": None if is_accelerated else 0}, {} if is_accelerated else ONE):
        yield from _stack_rows(one["methods"], {"matrices": one["matrices"], "stack": one["stack"]})
    yield from _record(scale)


def _stack_rows(methods: Mapping[str, Found], stack: Mapping[str, Any]) -> Iterator[Row]:
    is_trained = stack["stack"] != "initial"
    for name, found in methods.items():
        also = {key: found[key] for key in ("rounds", "repeated") if key in found}
        yield of_repeats("decomposition", {"method": name, **stack}, found["ms"], "ms", also=also)
    exact = median(methods["exact"]["ms"])
    for name in ("fast, cold", "fast, warm"):
        goal = TRAINED_GOAL if name == "fast, warm" and is_trained else ""
        gain = exact / median(methods[name]["ms"])
        yield Row("decomposition, times quicker than exact", {"method": name, **stack}, gain, "x", goal=goal)
    error = methods["fast, warm"]["error"]
    if error is not None:
        yield Row("largest error of |cos|, gaps above 1 %", stack, error, "", goal=ERROR_GOAL)


def _record(scale: Scale) -> Iterator[Row]:
    """Yield what a record every `scale.every` steps adds to the time of training, in per cent."""
    gflops = limit_row(scale.matmul).value or 1.0
    alone = training_job(scale.network, scale.seeds, scale, gflops)
    grid = scale.network.grid(scale.steps, scale.every, scale.seeds)
    measures = {"exact": {}, "fast": {"svd": "fast"}, "fast, 128 examples": LEAN}
    sweeps = [{"grid": grid | {"measure": grid["measure"] | more}} for more in measures.values()]
    trained, *measured = ours([alone, *sweeps], scale)
    for name, found in zip(measures, measured, strict=True):
        share = 100 * (median(trained["call_rates"]) / found["workload_rate"] - 1)
        goal = RECORD_GOAL if measures[name] is LEAN else ""
        yield Row("records, share of training", {"every": scale.every, "svd": name}, share, "%", goal=goal)


ONE = {"NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def stacks_of(number: int, side: int) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Return initial matrices (number, side, side) and stacks by name, each as at the record before and now.

    Trained ones are initial ones with singular values added that fall off as a power.
    """
    rng = np.random.default_rng(0)
    bound = side**-0.5
    shape = (number, side, side)
    initial = rng.uniform(-bound, bound, shape).astype(np.float32)
    u, v = (np.linalg.qr(rng.normal(size=shape))[0] for _ in range(2))
    before = {"initial": initial}
    for power in POWERS:
        learned = (u * (4.0 * np.arange(1, side + 1) ** -power)) @ np.swapaxes(v, 1, 2)
        before[f"trained, s ~ i^-{power:g}"] = initial + learned.astype(np.float32)
    step = (MOVED * rng.normal(size=shape)).astype(np.float32)
    return initial, {name: (matrices, matrices + step) for name, matrices in before.items()}


def compare(number: int, side: int, repeats: int) -> Iterator[Found]:
    """Yield for each stack the milliseconds of every method, compiled, and how far |cos| is off.

    `error` is the largest of |cos| of adjacent v1 and u1 against float64 where both gaps are above 1 % (None: there is
    no such pair).
    """
    import jax

    from geocont_jax.geometry.leading import block_size, fresh_directions, leading_triplets, renewed
    from geocont_jax.geometry.spectra import decompose

    fast = jax.jit(partial(leading_triplets, k=K))
    initial, stacks = stacks_of(number, side)
    fresh_start = fresh_directions(jax.numpy.asarray(initial), block_size(K, side))
    for name, (before, now) in stacks.items():
        warm_start = jax.block_until_ready(renewed(fast(before, fresh_start).basis, fresh_start))
        methods = {
            "exact": partial(jax.jit(decompose), now),
            "gram": partial(jax.jit(partial(decompose, method="gram")), now),
            "fast, cold": partial(fast, now, fresh_start),
            "fast, warm": partial(fast, now, warm_start),
        }
        truth = _truth(now)
        found = {name: _timed(method, truth, repeats) for name, method in methods.items()}
        yield {"matrices": number, "stack": name, "methods": found}


def _truth(matrices: np.ndarray) -> Mapping[str, np.ndarray]:
    u, s, vh = np.linalg.svd(matrices.astype(np.float64), full_matrices=False)
    return {"gap": 1 - s[:, 1] / s[:, 0], "u1": _cosines(u[:, :, 0]), "v1": _cosines(vh[:, 0])}


def _cosines(vectors: Any) -> np.ndarray:
    vectors = np.asarray(vectors, np.float64)
    return np.abs(np.sum(vectors[:-1] * vectors[1:], axis=-1))


def _timed(solve: Callable[[], Any], truth: Mapping[str, np.ndarray], repeats: int) -> Found:
    import jax

    found = jax.block_until_ready(solve())
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(solve())
        times.append(1e3 * (time.perf_counter() - began))
    spectrum = getattr(found, "spectrum", found)
    clear = (truth["gap"][:-1] > 0.01) & (truth["gap"][1:] > 0.01)
    off = np.maximum(*(np.abs(_cosines(getattr(spectrum, side)) - truth[side]) for side in ("u1", "v1")))
    how = {} if spectrum is found else {"rounds": int(found.rounds.max()), "repeated": int(found.repeated.sum())}
    return {"ms": times, "error": float(off[clear].max()) if clear.any() else None} | how


def main(asked: Mapping[str, Any]) -> Sequence[Found]:
    """Return what was measured of every stack."""
    if asked["core"] is not None:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[asked["core"]]})
    return [one for number in asked["matrices"] for one in compare(number, asked["side"], asked["repeats"])]


if __name__ == "__main__":
    request_made = request()
    when_all_are_ready()
    answer(main(request_made))
