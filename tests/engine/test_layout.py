"""Every run stands in exactly one place, and a block never mixes branches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from geocont_jax.engine.layout import Layout, choose_layout, place_runs

branches = st.lists(st.sampled_from("abc"), min_size=1, max_size=60)


@given(branches, st.integers(1, 4), st.integers(1, 5), st.integers(1, 7))
def test_each_run_is_placed_once_and_blocks_are_pure(keys, devices, turns, lanes):
    layout = Layout(devices, turns, lanes)
    calls = place_runs(keys, layout)
    placed = np.concatenate(calls)
    assert sorted(placed[placed >= 0]) == list(range(len(keys)))
    for call in calls:
        assert len(call) == layout.capacity
        for block in call.reshape(-1, lanes):
            assert len({keys[i] for i in block if i >= 0}) <= 1


@given(branches, st.integers(1, 8), st.sampled_from([1, 3, 256]), st.integers(1, 100))
def test_the_chosen_layout_keeps_to_the_memory_and_wastes_no_call(keys, devices, max_lanes, limit):
    layout = choose_layout(keys, devices, max_lanes, limit)
    assert layout.turns * layout.lanes <= max(limit, layout.lanes)
    assert layout.lanes <= limit
    assert layout.lanes <= max_lanes
    blocks = sum(-(-keys.count(k) // layout.lanes) for k in set(keys))
    calls = len(place_runs(keys, layout))
    assert layout.devices == min(devices, blocks)
    assert calls == -(-blocks // (layout.devices * layout.turns))


def test_an_accelerator_runs_a_seed_study_abreast():
    assert choose_layout(["relu"] * 256, 1, 256, 10_000) == Layout(1, 1, 256)
    assert choose_layout(["relu"] * 128 + ["tanh"] * 128, 1, 256, 10_000) == Layout(1, 2, 128)


def test_halving_ends_at_one_run():
    layout, sizes = Layout(2, 4, 4), []
    while layout is not None:
        sizes.append(layout.capacity)
        layout = layout.halved()
    assert sizes == [32, 16, 8, 4, 2]
