"""The tiny version of a grid."""

from pathlib import Path

import pytest

from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid, smoke
from geocont_jax.experiment.settings import Grid

GRIDS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_in_sweeps_has_a_tiny_version(path: Path) -> None:
    grid = load_grid(path)
    tiny = smoke(grid)
    assert tiny.sweep.keys() == grid.sweep.keys()
    for run in expand(tiny):
        settings = run.settings
        assert settings.model.depth <= 3
        assert settings.model.width <= 16
        assert settings.data.batch_size <= 32
        assert settings.training.steps is not None
        assert settings.training.steps <= 4
        assert settings.measure.every == 2
        assert settings.data.name == "mnist10k"
    assert list(tiny.seeds) == list(grid.seeds)[:2]
    assert load_grid(path) == grid


def tiny(**content: object) -> Grid:
    return smoke(load_grid({"name": "x", **content}))


def test_axes_of_size_are_cut_down_and_stay_different() -> None:
    axes = {"model.depth": [2, 3, 8, 16], "model.width": [8, 12, 15, 16, 512], "data.batch_size": [128, 256]}
    assert tiny(sweep=axes).sweep == {
        "model.depth": (2, 3), "model.width": (8, 12, 15), "data.batch_size": (32,),
    }  # fmt: skip
    many = [i / 10 for i in range(1, 11)]
    assert len(tiny(sweep={"model.init_scale": many}).sweep["model.init_scale"]) == 10


@pytest.mark.parametrize("kind", ["sweep", "zip"])
def test_an_axis_of_epochs_becomes_one_of_steps(kind: str) -> None:
    grid = tiny(**{kind: {"training.epochs": [2, 3, 9, 10]}})
    assert getattr(grid, kind) == {"training.steps": (2, 3, 4)}
    assert {run.settings.training.epochs for run in expand(grid)} == {None}


def test_an_axis_of_records_becomes_one_value() -> None:
    assert tiny(sweep={"measure.every": ["epoch", 200]}).sweep == {"measure.every": (2,)}


def test_zipped_rows_stay_together() -> None:
    grid = tiny(zip={"model.width": [8, 64, 256], "model.init_scale": [1.0, 0.5, 0.5]})
    assert grid.zip == {"model.width": (8, 16), "model.init_scale": (1.0, 0.5)}


def test_exclusions_that_still_mean_something_are_kept() -> None:
    sweep = {"model.width": [8, 64, 256], "model.init_scale": [1.0, 0.5]}
    kept = tiny(sweep=sweep, exclude=[{"model.width": 64, "model.init_scale": 0.5}, {"model.width": 8}])
    assert kept.exclude == ({"model.width": 16, "model.init_scale": 0.5}, {"model.width": 8})
    dropped = tiny(sweep={"model.width": [64, 256]}, exclude=[{"model.width": 64}])
    assert dropped.exclude == ()
    gone = tiny(sweep={"model.width": [2, 3, 4, 5]}, exclude=[{"model.width": 5}])
    assert gone.exclude == ()


@pytest.mark.parametrize(("name", "expected"), [("cifar10", "mnist10k"), ("npz:a.npz", "npz:a.npz")])
def test_only_data_that_are_at_hand_are_used(name: str, expected: str) -> None:
    assert tiny(data={"name": name}).data.name == expected


def test_short_trainings_stay_short() -> None:
    assert tiny(training={"steps": 2}).training.steps == 2


def test_the_longest_name_has_a_tiny_version_too() -> None:
    assert len(smoke(load_grid({"name": "a" * 80})).name) == 80
