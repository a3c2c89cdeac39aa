"""How often and how long it compiles: one program for a grid, none for new values or a resume; the first step."""

import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

from bench.rows import Row
from bench.sweeps import ours
from bench.workload import FULL, Network, Scale

FIRST_STEP_GOAL = "<= 15"
SMALL = Network(depth=3, width=16, batch_size=32)
STEPS = 40


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the numbers of compilations, and the seconds to the first steps with an empty and a full cache."""
    yield from _counts(scale)
    with TemporaryDirectory() as cache:
        for said in ("empty", "full"):
            yield _first_step(scale, said, cache)


def _counts(scale: Scale) -> Iterator[Row]:
    values = {"sweep": {"model.residual": [True, False], "training.learning_rate": [1e-3, 1e-2]}}
    others = {"sweep": {"model.residual": [0.5, 0.7], "training.learning_rate": [1e-4, 1e-1]}}
    grid, new = (SMALL.grid(STEPS, STEPS, 2, **axes) for axes in (values, others))
    with TemporaryDirectory() as cache, TemporaryDirectory() as out:
        stopped: dict[str, Any] = {"grid": new | {"name": "stopped"}, "out": out}
        environment = {"JAX_COMPILATION_CACHE_DIR": cache}
        jobs = [{"grid": grid}, {"grid": new}, stopped | {"stop_at_first_step": True}]
        first, second, _ = ours(jobs, scale, environment)
        (resumed,) = ours([stopped], scale, environment)
    for what, found, goal in (
        ("a grid of 8 runs", first, 1),
        ("new values, the same process", second, 0),
        ("a resume, a new process", resumed, 0),
    ):
        compiled = found["compiled"] - found["from_cache"]
        yield Row("compilations", {"for": what}, compiled, "", goal=f"<= {goal}")


def _first_step(scale: Scale, said: str, cache: str) -> Row:
    job: dict[str, Any] = {"grid": _quickstart(scale), "stop_at_first_step": True}
    began = time.time()
    (found,) = ours([job], scale, {"JAX_COMPILATION_CACHE_DIR": cache})
    also = {"s to the compiled program": found["compiled_at"] - began}
    seconds = found["first_steps_at"] - began
    return Row("time to the first steps", {"cache": said}, seconds, "s", None, also, FIRST_STEP_GOAL)


def _quickstart(scale: Scale) -> Any:
    from geocont_jax.experiment.reader import load_grid, smoke
    from geocont_jax.experiment.spec import grid_dict

    path = "sweeps/quickstart.yaml"
    return path if scale is FULL else grid_dict(smoke(load_grid(path)))
