"""Each epoch's order is a permutation of its own, batches cover it once, and pixels are standardised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from geocont_jax.data.batches import batch_indices, epoch_order, standardise, steps_per_epoch
from geocont_jax.errors import InputError

NUM_EXAMPLES = 103


@pytest.fixture
def key():
    return jax.random.key(7)


@pytest.mark.parametrize(("examples", "batch", "steps"), [(60_000, 128, 468), (10, 10, 1), (10, 3, 3), (10, 1, 10)])
def test_only_whole_batches_count(examples, batch, steps):
    assert steps_per_epoch(examples, batch) == steps


@pytest.mark.parametrize("batch", [11, 0, -1])
def test_a_batch_size_without_a_single_batch_is_refused(batch):
    with pytest.raises(InputError, match=rf"data\.batch_size: {batch} is not between 1 and 10"):
        steps_per_epoch(10, batch)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31 - 1), epoch=st.integers(0, 10_000), examples=st.sampled_from([1, 2, 17, 256]))
def test_every_epoch_order_is_a_permutation(seed, epoch, examples):
    order = epoch_order(jax.random.key(seed), epoch, examples)
    assert order.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(examples))


def test_orders_differ_between_epochs_and_keys_and_are_reproducible(key):
    orders = [epoch_order(key, epoch, NUM_EXAMPLES) for epoch in range(5)]
    orders += [epoch_order(jax.random.key(seed), 0, NUM_EXAMPLES) for seed in range(5)]
    assert len({np.asarray(order).tobytes() for order in orders}) == 10
    np.testing.assert_array_equal(epoch_order(key, 3, NUM_EXAMPLES), orders[3])


def test_the_shuffle_favours_no_place(key):
    # Over E epochs the mean place of an example is uniform's mean, within sampling error: sd = n / sqrt(12 E).
    num_epochs = 2_000
    orders = jax.vmap(lambda epoch: epoch_order(key, epoch, NUM_EXAMPLES))(jnp.arange(num_epochs))
    places = np.argsort(np.asarray(orders), axis=1).mean(axis=0)
    bound = 5 * NUM_EXAMPLES / np.sqrt(12 * num_epochs)  # 5 sigma: 103 places, false alarm below 1e-4
    assert np.abs(places - (NUM_EXAMPLES - 1) / 2).max() < bound


@pytest.mark.parametrize("batch_size", [1, 10, 103])
def test_batches_cover_each_example_of_an_epoch_once(key, batch_size):
    order = epoch_order(key, 2, NUM_EXAMPLES)
    steps = steps_per_epoch(NUM_EXAMPLES, batch_size)
    seen = np.concatenate([batch_indices(order, step, batch_size) for step in range(steps)])
    np.testing.assert_array_equal(seen, order[: steps * batch_size])
    assert len(np.unique(seen)) == steps * batch_size


def test_traced_keys_epochs_and_steps_give_the_same_batches(key):
    keys = jax.random.split(key, 3)
    per_epoch, batch_size, total = 10, 10, 25

    @jax.jit
    @jax.vmap
    def in_a_loop(key):
        def step(_, number):
            order = epoch_order(key, number // per_epoch, NUM_EXAMPLES)
            return None, batch_indices(order, number % per_epoch, batch_size)

        return lax.scan(step, None, jnp.arange(total))[1]

    expected = [
        [batch_indices(epoch_order(key, n // per_epoch, NUM_EXAMPLES), n % per_epoch, batch_size) for n in range(total)]
        for key in keys
    ]
    np.testing.assert_array_equal(in_a_loop(keys), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_standardise_is_the_formula(dtype):
    pixels = np.random.default_rng(1).integers(0, 256, (50, 12)).astype(dtype)
    scale = 255 if dtype == np.uint8 else 1
    exact = pixels.astype(np.float64) / scale
    mean, std = exact.mean(), exact.std()
    result = jax.jit(jax.vmap(standardise, in_axes=(0, None, None)))(pixels, jnp.float32(mean), jnp.float32(std))
    assert result.dtype == jnp.float32
    # Scale, offset, product and sum round once each, on values up to max |x| / std: below 8 half-ulps of that.
    bound = 8 * np.finfo(np.float32).eps / 2 * exact.max() / std
    np.testing.assert_allclose(result, (exact - mean) / std, rtol=0, atol=bound)
    assert abs(float(result.mean())) < bound
    assert float(result.std()) == pytest.approx(1, abs=bound)
