"""The program of the LAPACK deadlock: SVDs inside a scan inside shard_map on two CPU devices.

With `jnp.linalg.svd` in the place of `decompose` and a pool of two threads on two cores about one try of 12 calls in
three sleeps for ever. `python deadlock_program.py CALLS`, run by test_deadlock.py, which kills it then.
"""

import sys

import jax
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from geocont_jax.geometry.spectra import decompose

jax.config.update("jax_num_cpu_devices", 2)


def scores(matrices):
    def one(carry, _):
        return carry + 1e-3 * decompose(carry).s[..., :1, None], None

    return lax.scan(one, matrices, None, length=50)[0]


mesh = jax.make_mesh((2,), ("run",), axis_types=(AxisType.Auto,))
program = jax.jit(jax.shard_map(scores, mesh=mesh, in_specs=P("run"), out_specs=P("run"), check_vma=False))
stacks = jax.random.normal(jax.random.key(0), (32, 64, 64))
for _ in range(int(sys.argv[-1])):
    jax.block_until_ready(program(stacks))
print("done")
