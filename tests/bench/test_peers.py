"""The peers do our work: from the same weights, on the same batches, they come to the same records."""

import itertools
from dataclasses import asdict

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bench import jax_peer
from bench.contender import FAMILIES
from bench.workload import QUICK
from geocont_jax.engine.tasks import make_tasks
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.settings import traced_half
from geocont_jax.training.loop import train_step
from geocont_jax.training.measure import measure
from geocont_jax.training.program import encode_hypers
from geocont_jax.training.state import init_state

torch = pytest.importorskip("torch")
from bench import torch_peer  # noqa: E402

STEPS = 5
ASKED = {"network": asdict(QUICK.network)}


@pytest.fixture(scope="module")
def ours():
    """Return our initial weights, the batches, and our record after training on them."""
    task = make_tasks(expand(load_grid(QUICK.network.grid(STEPS, STEPS, 1))))[0]
    program, data = task.program, jax.device_put(task.data)
    encoded = encode_hypers([traced_half(task.runs[0].settings)], [0])
    hypers = {name: jnp.asarray(values[0]) for name, values in encoded.items()}
    state = init_state(program, hypers)
    params = jax.tree.map(np.array, state.params)
    batches = np.random.default_rng(0).permutation(9_000)[: STEPS * 32].reshape(STEPS, 32)
    step = jax.jit(lambda state, chosen, number: train_step(program, hypers, state, data, chosen, number))
    for number, chosen in enumerate(batches):
        state = step(state, chosen, number)
    return params, batches, measure(program, hypers, state, data, jnp.int32(STEPS))[1]


def in_torch(params):
    hidden = {f"hidden.{i}.weight": w for i, w in enumerate(params["hidden_kernel"])}
    named = {"input.weight": params["input_kernel"], **hidden, "output.weight": params["output_kernel"]}
    return {name: torch.from_numpy(w.T.copy()) for name, w in named.items()}


def eager(params, batches):
    trainer = torch_peer.Eager(ASKED)
    trainer.begin([0])
    trainer.model.load_state_dict(in_torch(params))
    trainer.initial = [w.detach().clone() for w in trainer.model.kernels()]
    trainer.indices = iter(torch.from_numpy(batches))
    return trainer


def ensemble(params, batches):
    trainer = torch_peer.Ensemble(ASKED)
    trainer.begin([0, 1])
    trainer.weights = {name: torch.stack([w, w]) for name, w in in_torch(params).items()}
    trainer.initial = [w.clone() for w in trainer.kernels(trainer.weights)]
    trainer.indices = ((rows, rows) for rows in torch.from_numpy(batches))
    return trainer


def plain_jax(params, batches):
    trainer = jax_peer.Sequential(ASKED)
    trainer.begin([0])
    weights = {name.removesuffix("_kernel"): jnp.array(w) for name, w in params.items()}
    trainer.initial = jnp.copy(weights["hidden"])
    trainer.state = weights, optax.adam(1e-3).init(weights), jnp.zeros_like(trainer.initial)
    trainer.indices = iter(batches)
    return trainer


@pytest.mark.parametrize("peer", [eager, ensemble, plain_jax])
def test_a_peer_trains_and_measures_what_we_do(peer, ours):
    params, batches, record = ours
    trainer = peer(params, batches)
    trainer.train(STEPS, with_history=True)
    found = trainer.measure()
    # A gradient is known to a relative 1e-6 or so; Adam's step for an entry g with error e is off by lr e / |g| and the
    # loss by g times that, lr e, summed over 14,000 weights and five steps below 1e-6.
    np.testing.assert_allclose(found["train_loss"], record["train_loss"], rtol=1e-5)
    for family, side in itertools.product(FAMILIES, ("v1", "u1")):
        # Matrices that differ by a relative 1e-5 (so the update) turn v1 by that over the gap, above 0.01.
        expected = np.asarray(record[f"{family}_{side}_cosine"])
        for values in found[f"{family}_{side}"]:
            np.testing.assert_allclose(values, expected, atol=1e-3, err_msg=f"{family} {side}")
