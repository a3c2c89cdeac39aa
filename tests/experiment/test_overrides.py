"""`--set KEY=VALUE`."""

import re

import pytest

from geocont_jax.errors import InputError
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.settings import Grid

BASE = {
    "name": "base",
    "training": {"epochs": 2},
    "sweep": {"model.init_scale": [1.0, 0.3], "model.bias": [True]},
}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.width=64", lambda grid: grid.model.width == 64),
        (" model.width = 64 ", lambda grid: grid.model.width == 64),
        ("seeds=2", lambda grid: list(grid.seeds) == [0, 1]),
        ("seeds=[3, 7]", lambda grid: list(grid.seeds) == [3, 7]),
        ("name=other", lambda grid: grid.name == "other"),
        ("sweep.model.init_scale=[1.0]", lambda grid: grid.sweep["model.init_scale"] == (1.0,)),
        ("sweep.model.width=[8, 9]", lambda grid: grid.sweep["model.width"] == (8, 9)),
        ("sweep={}", lambda grid: grid.sweep == {}),
        ("zip.model.width=[8]", lambda grid: grid.zip == {"model.width": (8,)}),
        ("exclude=[{model.init_scale: 0.3}]", lambda grid: len(grid.exclude) == 1),
        ("model={width: 8}", lambda grid: grid.model.width == 8),
        ("data.name=npz:a=b.npz", lambda grid: grid.data.name == "npz:a=b.npz"),
        ("data.dir=", lambda grid: grid.data.dir is None),
        ("training.steps=5", lambda grid: (grid.training.steps, grid.training.epochs) == (5, None)),
        ("sweep.training.steps=[5]", lambda grid: grid.sweep["training.steps"] == (5,)),
    ],
)
def test_a_value_is_put_over_the_files(override: str, expected) -> None:  # type: ignore[no-untyped-def]
    assert expected(load_grid(BASE, [override]))


def test_an_axis_keeps_its_place() -> None:
    assert list(load_grid(BASE, ["sweep.model.init_scale=[2.0]"]).sweep) == ["model.init_scale", "model.bias"]


def test_the_last_value_of_a_key_counts() -> None:
    assert load_grid(BASE, ["model.width=8", "model.width=9"]).model.width == 9
    assert load_grid(BASE, ["training.steps=8", "training.epochs=3"]).training.epochs == 3


def test_the_base_is_never_changed() -> None:
    grid = load_grid(BASE)
    load_grid(BASE, ["training.steps=5", "sweep.model.init_scale=[2.0]", "model.width=8"])
    assert load_grid(BASE) == grid == load_grid(grid)
    assert isinstance(grid, Grid)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.width=a", "--set model.width=a: model.width: 'a' is not an integer"),
        (
            "model.init_scale=2",
            "--set model.init_scale=2: model.init_scale: is an axis of this grid; write --set sweep.",
        ),
        (
            "sweep.model.init_scale=[1, 1.0]",
            "--set sweep.model.init_scale=[1, 1.0]: sweep.model.init_scale[1]: the val",
        ),
        (
            "sweep.model.init_scale=1",
            "--set sweep.model.init_scale=1: sweep.model.init_scale: '1' where a list belongs",
        ),
        (
            "sweep.model.init_scale=[]",
            "--set sweep.model.init_scale=[]: sweep.model.init_scale: the list is empty",
        ),
        (
            "sweep.model.widht=[1]",
            "--set sweep.model.widht=[1]: sweep.model.widht: unknown key; did you mean model.width",
        ),
        ("modle.width=3", "--set modle.width=3: modle.width: unknown key; write model.width"),
        ("widht=3", "--set widht=3: widht: unknown key; did you mean model.width?"),
        ("seeds=", "--set seeds=: seeds: an empty value is not an integer"),
        ("model.width", "--set model.width: not KEY=VALUE; write for example"),
        ("=3", "--set =3: not KEY=VALUE"),
        ("", "--set : not KEY=VALUE"),
        ("model.depth=[", "--set model.depth=[: not YAML"),
        ("model.depth=3\n---\n4", "--set model.depth=3 --- 4: a second document"),
        ("model.depth=!!int 3", "--set model.depth=!!int 3: explicit tag !!int"),
        ("model=3", "--set model=3: model: '3' where lines of `key: value` belong"),
        ("zip.model.bias=[true]", "--set zip.model.bias=[true]: zip.model.bias: is an axis of sweep as well"),
        ("sweep.seeds=[1]", "--set sweep.seeds=[1]: sweep.seeds: cannot be an axis"),
    ],
)
def test_a_wrong_value_is_named_by_its_option(override: str, message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)) as caught:
        load_grid(BASE, [override])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_wrong_before_stays_wrong() -> None:
    with pytest.raises(InputError, match="model: 3 where lines"):
        load_grid({"name": "x", "model": 3}, ["model.width=4"])
