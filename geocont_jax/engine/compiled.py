"""One program, compiled once: `advance` for a whole call's worth of runs, on all devices."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from geocont_jax.engine.layout import Layout
from geocont_jax.experiment.settings import BRANCHES
from geocont_jax.training.loop import advance
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.measure import Record
from geocont_jax.training.program import HYPER_TYPES, Hypers, Program
from geocont_jax.training.state import RunState, init_state

AXIS = "run"


@dataclass(frozen=True)
class CompiledProgram:
    """An executable with the layout it was compiled for. It cannot compile again: new values just run."""

    executable: Any
    layout: Layout
    mesh: Mesh
    state_shapes: RunState

    def place(self, tree: Any) -> Any:
        """Put arrays with a leading run axis (the layout's capacity) on the devices."""
        return jax.device_put(tree, NamedSharding(self.mesh, P(AXIS)))

    def zeros(self) -> RunState:
        """Return states of zeros for a whole call; at step 0 the program replaces them. The host never has them all."""
        by_runs = NamedSharding(self.mesh, P(AXIS))

        def zeros(x: jax.ShapeDtypeStruct) -> jax.Array:
            shard = by_runs.shard_shape(x.shape)
            return jax.make_array_from_callback(x.shape, by_runs, lambda index: np.zeros(shard, x.dtype))

        return jax.tree.map(zeros, self.state_shapes)

    def replicate(self, tree: Any) -> Any:
        """Put arrays on every device whole."""
        return jax.device_put(tree, NamedSharding(self.mesh, P()))

    def __call__(
        self, hypers: Hypers, state: RunState, active: np.ndarray, data: TrainingData,
        start: int, stop: int, is_record: bool,
    ) -> tuple[RunState, Record]:  # fmt: skip
        """Advance the active runs from step `start` to `stop`; `state` is donated and must not be used again."""
        scalars = jax.device_put((np.int32(start), np.int32(stop), np.bool_(is_record)), NamedSharding(self.mesh, P()))
        return self.executable(hypers, state, self.place(active), data, *scalars)

    @property
    def device_bytes(self) -> int:
        """Memory that a call takes on one device: arguments, results and its own work, in bytes.

        States are counted once: they are donated, and their results take their place.
        """
        found = self.executable.memory_analysis()
        results = found.output_size_in_bytes - found.alias_size_in_bytes
        work = found.temp_size_in_bytes + found.generated_code_size_in_bytes
        return int(found.argument_size_in_bytes + results + work)


def compile_program(program: Program, layout: Layout, data: TrainingData) -> CompiledProgram:
    """Compile `program` for `layout` and data of these shapes, or return what this process compiled before."""
    return _compile(program, layout, tuple((x.shape, np.dtype(x.dtype)) for x in data))


@lru_cache(maxsize=8)
def _compile(
    program: Program, layout: Layout, data_types: tuple[tuple[tuple[int, ...], np.dtype], ...]
) -> CompiledProgram:
    mesh = run_mesh(layout.devices)
    runs, everywhere = NamedSharding(mesh, P(AXIS)), NamedSharding(mesh, P())
    sharded = jax.shard_map(
        lambda *arguments: _local(program, layout.lanes, *arguments),
        mesh=mesh,
        in_specs=(P(AXIS), P(AXIS), P(AXIS), P(), P(), P(), P()),
        out_specs=P(AXIS),
        check_vma=False,
    )
    active = jax.ShapeDtypeStruct((layout.capacity,), jnp.bool_)
    step = jax.ShapeDtypeStruct((), jnp.int32)
    of_runs = _with_sharding((*run_shapes(program, layout.capacity), active), runs)
    data = TrainingData(*[jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in data_types])
    shared = _with_sharding((data, step, step, jax.ShapeDtypeStruct((), jnp.bool_)), everywhere)
    lowered = jax.jit(sharded, donate_argnums=1).lower(*of_runs, *shared)
    return CompiledProgram(lowered.compile(), layout, mesh, run_shapes(program, layout.capacity)[1])


def run_mesh(num_devices: int) -> Mesh:
    """Return the mesh whose one axis is the run axis."""
    return jax.make_mesh((num_devices,), (AXIS,), axis_types=(AxisType.Auto,), devices=jax.devices()[:num_devices])


@lru_cache(maxsize=64)
def run_shapes(program: Program, num_runs: int) -> tuple[Hypers, RunState]:
    """Return the shapes of the hyperparameters and states of `num_runs` runs, without computing anything."""
    return jax.eval_shape(jax.vmap(lambda hypers: (hypers, init_state(program, hypers))), hyper_shapes(num_runs))


def hyper_shapes(num_runs: int) -> dict[str, Any]:
    """Return the shapes and types of the hyperparameters of `num_runs` runs."""
    return {name: jax.ShapeDtypeStruct((num_runs,), dtype) for name, dtype in HYPER_TYPES.items()}


def _with_sharding(tree: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree)


def _local(
    program: Program,
    lanes: int,
    hypers: Hypers,
    state: RunState,
    active: Array,
    data: TrainingData,
    *span: Array,
) -> tuple[RunState, Record]:
    """Take the runs of one device block by block; states are updated in place, block after block."""

    def advance_block(hypers: Hypers, state: RunState) -> tuple[RunState, Record]:
        return _advance_abreast(program, hypers, state, data, span)

    def at(tree: Any, block: Array | int) -> Any:
        return jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, block * lanes, lanes), tree)

    def put(tree: Any, block: Array, part: Any) -> Any:
        return jax.tree.map(lambda x, y: lax.dynamic_update_slice_in_dim(x, y, block * lanes, axis=0), tree, part)

    record_shapes = jax.eval_shape(advance_block, at(hypers, 0), at(state, 0))[1]
    num_runs = active.shape[0]
    records = jax.tree.map(lambda x: jnp.zeros((num_runs, *x.shape[1:]), x.dtype), record_shapes)

    def one_block(block: Array, carry: tuple[RunState, Record]) -> tuple[RunState, Record]:
        state, records = carry

        def work() -> tuple[RunState, Record]:
            return advance_block(at(hypers, block), at(state, block))

        def skip() -> tuple[RunState, Record]:
            return at(state, block), at(records, block)

        part, record = lax.cond(jnp.any(at(active, block)), work, skip)
        return put(state, block, part), put(records, block, record)

    return lax.fori_loop(0, num_runs // lanes, one_block, (state, records))


def _advance_abreast(
    program: Program, hypers: Hypers, state: RunState, data: TrainingData, span: tuple[Array, ...]
) -> tuple[RunState, Record]:
    """Advance the runs of a block; a block of one is not vmapped, which spares a CPU the batched products."""
    start, stop, is_record = span

    def one_run(hypers: Hypers, state: RunState) -> tuple[RunState, Record]:
        return advance(program, hypers, state, data, start, stop, is_record)

    lanes = hypers["seed"].shape[0]
    if lanes == 1:
        one = jax.tree.map(lambda x: x[0], (hypers, state))
        return jax.tree.map(lambda x: x[None], one_run(*one))
    shared = {name: hypers[name][0] for name in BRANCHES}
    varying = {name: values for name, values in hypers.items() if name not in BRANCHES}
    return jax.vmap(lambda varying, state: one_run(varying | shared, state))(varying, state)
