"""The program of the LAPACK deadlock: SVDs inside a scan inside shard_map on two CPU devices.

With XLA's default pool of two threads on two cores about one try in three sleeps for ever; run by
test_deadlock.py, which kills it then. `python deadlock_program.py CALLS` uses the pool that NPROC says.
"""

import sys

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 2)


def scores(matrices):
    def one(carry, _):
        values = jnp.linalg.svd(carry, full_matrices=False)[1]
        return carry + 1e-3 * values[..., :1, None], None

    return lax.scan(one, matrices, None, length=50)[0]


mesh = jax.make_mesh((2,), ("run",), axis_types=(AxisType.Auto,))
program = jax.jit(jax.shard_map(scores, mesh=mesh, in_specs=P("run"), out_specs=P("run"), check_vma=False))
stacks = jax.random.normal(jax.random.key(0), (32, 64, 64))
for _ in range(int(sys.argv[-1])):
    jax.block_until_ready(program(stacks))
print("done")
