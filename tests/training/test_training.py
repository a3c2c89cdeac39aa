"""A run: one step against NumPy, records against NumPy, pauses that change nothing, runs that die alone."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from geocont_jax.data.batches import batch_indices, epoch_order
from geocont_jax.experiment.settings import TRACED, Settings, static_half, traced_half
from geocont_jax.optimizers.registry import OPTIMIZERS, build_optimizer, clip_by_global_norm
from geocont_jax.training.loop import advance, train, train_step, train_steps
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.measure import OF_LEADING, fields_of
from geocont_jax.training.program import Program, Purpose, encode_hypers, run_key
from geocont_jax.training.state import init_state
from tests.oracles import numpy_step, oracle_record

NUM_TRAIN, FEATURES, CLASSES = 96, 12, 4


def make_data(seed=0):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (NUM_TRAIN + 40, FEATURES)).astype(np.uint8)
    labels = rng.integers(0, CLASSES, NUM_TRAIN + 40).astype(np.int32)
    train, test = slice(0, NUM_TRAIN), slice(NUM_TRAIN, None)
    return TrainingData(
        *map(jnp.asarray, (pixels[train], labels[train], pixels[:32], labels[:32], pixels[test], labels[test])),
        jnp.float32(0.5), jnp.float32(0.29),
    )  # fmt: skip


def make_run(seed=0, steps=5, every=2, **choices):
    """Return a tiny program and its traced half; `choices` are settings by short name."""
    sections = {
        "model": {"kind": "residual_mlp", "depth": 3, "width": 8},
        "data": {"name": "mnist10k", "batch_size": 32},
        "training": {"steps": steps},
        "measure": {"every": every},
    }
    homes = {"learning_rate": "training", "optimizer": "training", "beta1": "training", "beta2": "training",
             "momentum": "training", "weight_decay": "training", "grad_clip": "training",
             "families": "measure", "reference": "measure", "svd": "measure"}  # fmt: skip
    for name, value in choices.items():
        sections[homes.get(name, "model")][name] = value
    settings = Settings.model_validate(sections)
    solver = settings.measure.svd
    program = Program(static_half(settings), NUM_TRAIN, FEATURES, CLASSES, solver=solver)
    hypers = {k: jnp.asarray(v[0]) for k, v in encode_hypers([traced_half(settings)], [seed]).items()}
    return program, hypers


CHOICES = [
    {},
    {"activation": "relu", "norm": "layernorm", "bias": True},
    {"activation": "radial", "residual": 0.5, "grad_clip": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.0},
    {"optimizer": "adamw", "weight_decay": 0.1, "bias": True},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01, "learning_rate": 0.1, "bias": True},
    {"optimizer": "sgd", "learning_rate": 0.1, "grad_clip": 0.05, "activation": "tanh", "norm": "rmsnorm"},
    {"optimizer": "sign", "momentum": 0.5, "weight_decay": 0.1, "bias": True},
    {"optimizer": "novograd", "beta1": 0.8, "beta2": 0.5, "weight_decay": 0.1, "bias": True},
    {"optimizer": "muon", "momentum": 0.9, "weight_decay": 0.1, "learning_rate": 0.05, "bias": True},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_two_steps_equal_a_hand_written_numpy_implementation(choices):
    program, hypers = make_run(**choices)
    data, state = make_data(), init_state(program, hypers)
    oracle = {"params": {k: np.asarray(v, np.float64) for k, v in state.params.items()}, "memory": {}}
    step = jax.jit(lambda state, indices, step: train_step(program, hypers, state, data, indices, step))
    for number in range(2):
        indices = np.arange(32) + 7 * number
        state = step(state, jnp.asarray(indices), jnp.int32(number))
        oracle = numpy_step(program, hypers, oracle, data, indices, number)
    for name, expected in oracle["params"].items():
        # Adam divides by sqrt(v): a gradient entry near 0 turns float32 rounding into a share of one step.
        tolerance = 3e-2 * float(hypers["learning_rate"]) + 1e-6
        np.testing.assert_allclose(state.params[name], expected, atol=tolerance)
        assert np.sqrt(np.mean((state.params[name] - expected) ** 2)) < tolerance / 10


RECORDED = [
    {"activation": "relu"},
    {"residual": False, "activation": "identity"},
    {"activation": "radial", "families": "all", "optimizer": "adamw", "weight_decay": 0.5, "reference": 3},
    {"activation": "relu", "families": "all", "svd": "fast"},
]


@pytest.mark.parametrize("choices", RECORDED, ids=str)
def test_every_recorded_quantity_equals_float64_numpy(choices):
    program, hypers = make_run(learning_rate=0.01, **choices)
    data = make_data()
    records = jax.jit(lambda: train(program, hypers, data))()
    fields = fields_of(program.settings.measure)
    assert set(records) == set(fields)
    assert [len(values) for values in records.values()] == [len(program.record_steps)] * len(fields)
    for number, step in enumerate(program.record_steps):
        expected_record = oracle_record(program, hypers, data, step)
        assert set(fields) - set(expected_record) == (set(OF_LEADING) if "svd" in choices else set())
        for name in set(fields) & set(expected_record):
            expected = expected_record[name]
            np.testing.assert_allclose(records[name][number], expected, rtol=2e-3, atol=2e-3, err_msg=f"{name} {step}")


def test_the_fast_solver_records_how_well_it_found_what_it_found():
    program, hypers = make_run(learning_rate=0.01, activation="relu", svd="fast")
    records = jax.jit(lambda: train(program, hypers, make_data()))()
    assert (records["svd_residual"] < 1e-5).all()
    assert ((records["svd_repeated"] >= 0) & (records["svd_repeated"] <= 4 * 3)).all()
    exact = jax.jit(lambda: train(*make_run(learning_rate=0.01, activation="relu"), make_data()))()
    assert {name for name in exact if name not in records} == {
        f"{family}_{name}"
        for family in ("weight", "update", "gradient", "cumulative_gradient")
        for name in ("effective_rank", *(f"{side}_{of}" for side in "vu" for of in WHOLE))
    }


WHOLE = ("alignment", "alignment_symmetric", "alignment_best", "overlap4", "overlap16")


def test_pauses_change_no_bit():
    program, hypers = make_run(activation="relu")
    data = make_data()
    step = jax.jit(lambda state, start, stop, record: advance(program, hypers, state, data, start, stop, record))

    def run(bounds):
        state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(lambda: init_state(program, hypers)))
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            state, record = step(state, start, stop, stop == bounds[-1])
        return state, record

    whole, paused = run([0, 5]), run([0, 0, 1, 2, 4, 5])
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b, equal_nan=True)), whole, paused))


def test_the_pure_training_function_equals_the_paused_one():
    program, hypers = make_run(activation="silu", steps=3, every=3)
    data = make_data()
    records = jax.jit(lambda: train(program, hypers, data))()
    once = jax.jit(lambda state, start, stop: advance(program, hypers, state, data, start, stop, True))
    record = once(once(init_state(program, hypers), 0, 0)[0], 0, 3)[1]
    for name, values in record.items():
        np.testing.assert_allclose(records[name][-1], values, rtol=1e-5, atol=1e-5, err_msg=name)


def test_variants_with_one_seed_share_noise_and_batches_and_seeds_differ():
    data = make_data()
    (program, one), (_, other), (_, third) = (
        make_run(3),
        make_run(3, activation="relu", learning_rate=0.5),
        make_run(4),
    )
    same, also, different = (init_state(program, h).params["hidden_kernel"] for h in (one, other, third))
    assert jnp.array_equal(same, also)
    assert not jnp.array_equal(same, different)
    orders = [epoch_order(run_key(h, Purpose.BATCHES), 0, NUM_TRAIN) for h in (one, other, third)]
    assert jnp.array_equal(orders[0], orders[1])
    assert not jnp.array_equal(orders[0], orders[2])
    assert len(set(np.asarray(batch_indices(orders[0], 1, 32)).tolist())) == 32
    del data


def test_a_diverged_run_is_marked_with_its_step_and_is_nan_from_there():
    program, hypers = make_run(steps=6, every=1, optimizer="sgd", learning_rate=1e12)
    records = jax.jit(lambda: train(program, hypers, make_data()))()
    finite = np.isfinite(records["train_loss"])
    assert finite[0]
    assert not finite[-1]
    assert not finite[np.argmin(finite) :].any()
    assert np.isnan(records["weight_v1_cosine"][-1]).all()
    trained = jax.jit(lambda state: train_steps(program, hypers, state, make_data(), 0, 6))
    assert 0 < int(trained(init_state(program, hypers)).diverged_at) <= 3


def test_a_diverging_neighbour_under_vmap_changes_nothing():
    data = make_data()
    program, healthy = make_run(optimizer="sgd", learning_rate=0.1)
    wild = healthy | {"learning_rate": jnp.float32(1e12)}

    def both(a, b):
        stacked = {name: jnp.stack([a[name], b[name]]) for name in a}
        shared = {name: a[name] for name in ("activation", "norm")}
        varying = {name: value for name, value in stacked.items() if name not in shared}
        return jax.jit(jax.vmap(lambda varying: train(program, varying | shared, data)))(varying)

    beside_wild, beside_itself = both(healthy, wild), both(healthy, healthy)
    for name in beside_wild:
        np.testing.assert_array_equal(beside_wild[name][0], beside_itself[name][0], err_msg=name)
    assert np.isnan(beside_wild["train_loss"][1][-1])
    assert np.isfinite(beside_wild["train_loss"][0]).all()


def test_zero_switches_a_term_off_exactly():
    for optimizer, term in (
        ("adam", "weight_decay"),
        ("adamw", "weight_decay"),
        ("sgd", "momentum"),
        ("sgd", "grad_clip"),
    ):
        program, hypers = make_run(optimizer=optimizer)
        assert float(hypers[term]) == 0.0
        transform = build_optimizer(optimizer, hypers)
        state = init_state(program, hypers)
        gradients = jax.tree.map(lambda p: jnp.full(p.shape, 3.0), state.params)
        updates, _ = transform.update(gradients, state.opt_state, state.params)
        rate, betas = hypers["learning_rate"], (hypers["beta1"], hypers["beta2"])
        plain = optax.adam(rate, *betas) if "adam" in optimizer else optax.sgd(rate)
        expected, _ = plain.update(gradients, plain.init(state.params), state.params)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), updates, expected))


def test_clipping_bounds_the_global_norm():
    gradients = {"a": jnp.full((3,), 4.0), "b": jnp.full((2, 2), -3.0)}
    clipped, _ = clip_by_global_norm(jnp.float32(1.5)).update(gradients, optax.EmptyState())
    np.testing.assert_allclose(optax.tree.norm(clipped), 1.5, rtol=1e-6)
    loose, _ = clip_by_global_norm(jnp.float32(1e6)).update(gradients, optax.EmptyState())
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), loose, gradients))


def test_every_optimiser_is_compared_with_numpy():
    assert {choices.get("optimizer", "adam") for choices in CHOICES} == set(OPTIMIZERS)


def test_record_steps_begin_at_zero_and_end_at_the_last_step():
    assert make_run(steps=5, every=2)[0].record_steps == (0, 2, 4, 5)
    assert make_run(steps=6, every="epoch")[0].record_steps == (0, 3, 6)


def test_new_values_of_traced_settings_trace_nothing_new():
    data, traces = make_data(), []
    program, hypers = make_run()

    @jax.jit
    def once(hypers):
        traces.append(1)
        return train(program, hypers, data)["train_loss"]

    for name in TRACED:
        once(hypers | {name: hypers[name] + jnp.ones((), hypers[name].dtype)})
    assert len(traces) == 1
