"""The store: what writing costs a sweep, and how quickly many runs are read and drawn."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

from bench.rows import Row
from bench.sweeps import ours
from bench.workload import Network, Scale

WRITING_GOAL = "<= 1"
READING_GOAL = "<= 3"
# As many layers as the paper's network, so that records are as large; little to train.
THIN = Network(depth=16, width=8, batch_size=8)
RECORDS = 4


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the share of a sweep's time that writing takes, and the seconds to read a store of many runs."""
    (found,) = ours([{"grid": scale.network.grid(scale.steps, scale.every, scale.seeds)}], scale)
    share = 100 * found["writing_seconds"] / found["training_seconds"]
    yield Row("writing records, share of a sweep", {"records every": scale.every}, share, "%", goal=WRITING_GOAL)
    with TemporaryDirectory() as out:
        ours([{"grid": THIN.grid(RECORDS, 1, scale.store_runs), "out": out}], scale)
        (seconds,) = ours([{"action": "read", "out": out}], scale)
    also = {f"s {name}": value for name, value in seconds.items()}
    total = sum(seconds.values())
    yield Row("reading and drawing a store", {"runs": scale.store_runs}, total, "s", None, also, READING_GOAL)
