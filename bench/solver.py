"""Leading singular vectors: exact SVD, Gram + eigh and the fast solver on the same stacks.

python -m bench.solver                                    as a sweep sets the process up
NPROC=1 taskset -c 0 python -m bench.solver --repeats 9   one core
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

Row = dict[str, Any]

SIDE = 256  # of the paper's matrices
MATRICES = (16, 64, 112)  # one family of the paper's network, the four of every record, all seven
MOVED = 0.003  # between two records: the tenth part of an initial entry's standard deviation
COLUMNS = ("matrices", "stack", "method", "ms", "cpu_ms", "times_exact", "error", "smallest_gap", "rounds", "repeated")


def solver_rows(matrices: Sequence[int] = MATRICES, side: int = SIDE, k: int = 1, repeats: int = 5) -> Iterator[Row]:
    """Yield a row per stack and method; times are of a call that is compiled, in milliseconds.

    `ms` is the median on the clock and `cpu_ms` that of processor time, which other work on the machine disturbs less;
    `times_exact` is how often `cpu_ms` goes into that of the exact SVD. `error` is the largest of |cos| of adjacent v1
    and u1 against float64 where both gaps are above 1 % (None: there is no such pair).
    """
    import jax

    from geocont_jax.geometry.leading import block_size, fresh_directions, leading_triplets, renewed
    from geocont_jax.geometry.spectra import decompose

    fast = jax.jit(partial(leading_triplets, k=k))
    wholes = {"exact": jax.jit(decompose), "gram": jax.jit(partial(decompose, method="gram"))}
    for number in matrices:
        initial, stacks = stacks_of(number, side)
        fresh = fresh_directions(jax.numpy.asarray(initial), block_size(k, side))
        for name, (before, now) in stacks.items():
            truth = _truth(now)
            warm = jax.block_until_ready(renewed(fast(before, fresh).basis, fresh))
            rows = [_row(partial(solve, now), truth, repeats) | {"method": way} for way, solve in wholes.items()]
            rows += [
                _row(partial(fast, now, start), truth, repeats) | {"method": f"fast, {way}"}
                for way, start in (("cold", fresh), ("warm", warm))
            ]
            for row in rows:
                yield {"matrices": number, "stack": name, "times_exact": rows[0]["cpu_ms"] / row["cpu_ms"]} | row


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
    for power in (0.5, 1.0):
        learned = (u * (4.0 * np.arange(1, side + 1) ** -power)) @ np.swapaxes(v, 1, 2)
        before[f"trained, s ~ i^-{power:g}"] = initial + learned.astype(np.float32)
    step = (MOVED * rng.normal(size=shape)).astype(np.float32)
    return initial, {name: (matrices, matrices + step) for name, matrices in before.items()}


def _truth(matrices: np.ndarray) -> Mapping[str, np.ndarray]:
    u, s, vh = np.linalg.svd(matrices.astype(np.float64), full_matrices=False)
    return {"gap": 1 - s[:, 1] / s[:, 0], "u1": _cosines(u[:, :, 0]), "v1": _cosines(vh[:, 0])}


def _cosines(vectors: Any) -> np.ndarray:
    vectors = np.asarray(vectors, np.float64)
    return np.abs(np.sum(vectors[:-1] * vectors[1:], axis=-1))


def _row(solve: Callable[[], Any], truth: Mapping[str, np.ndarray], repeats: int) -> Row:
    import jax

    found = jax.block_until_ready(solve())
    wall, cpu = [], []
    for _ in range(repeats):
        began, began_cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(solve())
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    spectrum = getattr(found, "spectrum", found)
    clear = (truth["gap"][:-1] > 0.01) & (truth["gap"][1:] > 0.01)
    off = np.maximum(*(np.abs(_cosines(getattr(spectrum, side)) - truth[side]) for side in ("u1", "v1")))
    return {
        "ms": 1e3 * median(wall),
        "cpu_ms": 1e3 * median(cpu),
        "error": float(off[clear].max()) if clear.any() else None,
        "smallest_gap": float(truth["gap"].min()),
        "rounds": int(found.rounds.max()) if spectrum is not found else None,
        "repeated": int(found.repeated.sum()) if spectrum is not found else None,
    }


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=int, nargs="+", default=MATRICES)
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--k", type=int, default=1, help="how many triplets")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()

    from geocont_jax.engine.environment import prepare_process

    prepare_process()
    widths = [max(len(name), 22 if name == "stack" else 10) for name in COLUMNS]
    print("  ".join(name.ljust(width) for name, width in zip(COLUMNS, widths, strict=True)))
    for row in solver_rows(asked.matrices, asked.side, asked.k, asked.repeats):
        print("  ".join(_cell(row[name]).ljust(width) for name, width in zip(COLUMNS, widths, strict=True)), flush=True)


if __name__ == "__main__":
    main()
