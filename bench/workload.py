"""What is measured: the paper's toy network and how large a benchmark is."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Network:
    """The paper's toy network, `features-width, depth x (width x width) residual, width-classes`, and its batch."""

    depth: int = 16
    width: int = 256
    batch_size: int = 128
    features: int = 784
    classes: int = 10

    @property
    def gflop(self) -> float:
        """Work of a run-step, `6 batch weights`: two products of a weight's size forward, four backward.

        >>> round(Network().gflop, 2)
        0.96
        """
        weights = self.features * self.width + self.depth * self.width**2 + self.width * self.classes
        return 6e-9 * self.batch_size * weights

    def grid(self, steps: int, every: int, seeds: int, **settings: Any) -> dict[str, Any]:
        """Return the grid of this network with so many seeds; `settings` are further top-level keys."""
        return {
            "name": "bench",
            "model": {"depth": self.depth, "width": self.width},
            "data": {"batch_size": self.batch_size},
            "training": {"steps": steps},
            "measure": {"every": every},
            "seeds": seeds,
        } | settings


@dataclass(frozen=True)
class Scale:
    """How large a benchmark is; times are those of one sample each."""

    network: Network
    runs: tuple[int, ...]
    lanes: tuple[int, ...]
    lane_runs: int
    accelerator_runs: tuple[int, ...]
    seeds: int
    every: int
    num_intervals: int
    rounds: int
    call_seconds: float
    num_calls: int
    matmul: int
    stacks: tuple[int, ...]
    activations: tuple[str, ...]
    depths: tuple[int, ...]
    widths: tuple[int, ...]
    batches: tuple[int, ...]
    many_runs: tuple[int, ...]
    many_records: tuple[int, ...]
    many_cells: tuple[int, ...]
    memory_runs: tuple[int, ...]
    store_runs: int

    @property
    def steps(self) -> int:
        """Length of the workload that users have: records every `every` steps."""
        return self.every * self.num_intervals


FULL = Scale(
    network=Network(),
    runs=(1, 2, 4, 8, 16, 32, 64),
    lanes=(1, 2, 4),
    lane_runs=8,
    accelerator_runs=(128, 256, 512),
    seeds=8,
    every=50,
    num_intervals=2,
    rounds=2,
    call_seconds=0.6,
    num_calls=5,
    matmul=2048,
    stacks=(16, 64),
    activations=("relu", "gelu", "silu", "tanh", "identity", "radial"),
    depths=(8, 32),
    widths=(128, 512),
    batches=(64, 256),
    many_runs=(100, 1_000),
    many_records=(25, 250),
    many_cells=(1_000, 10_000, 100_000),
    memory_runs=(4, 16),
    store_runs=1_000,
)

QUICK = Scale(
    network=Network(depth=3, width=16, batch_size=32),
    runs=(1, 4),
    lanes=(1, 2),
    lane_runs=4,
    accelerator_runs=(8,),
    seeds=4,
    every=5,
    num_intervals=2,
    rounds=1,
    call_seconds=0.02,
    num_calls=4,
    matmul=256,
    stacks=(3,),
    activations=("relu", "tanh"),
    depths=(2, 3),
    widths=(8, 16),
    batches=(16, 32),
    many_runs=(16, 32),
    many_records=(4, 16),
    many_cells=(160, 320),
    memory_runs=(4,),
    store_runs=12,
)
