"""From a grid to its runs, and from runs to programs."""

import time
from itertools import product

import pytest

from geocont_jax.errors import InputError
from geocont_jax.experiment.grid import count_runs, expand
from geocont_jax.experiment.identity import grid_hash, run_identity
from geocont_jax.experiment.plan import group_runs
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.sections import AXIS_NAMES, FIELDS, short_name
from geocont_jax.experiment.settings import (
    BRANCHES,
    TRACED,
    Settings,
    settings_by_name,
    static_half,
    traced_half,
)

STUDY = {
    "name": "study",
    "sweep": {"model.residual": [True, 0.5], "model.activation": ["relu", "radial"]},
    "zip": {"model.width": [8, 16], "training.learning_rate": [0.1, 0.2]},
    "seeds": [7, 3],
}

OTHER_VALUES = {
    "residual": 0.25, "activation": "gelu", "activation_scale": 16.0, "norm": "rmsnorm", "init_std": 0.5,
    "init_scale": 0.3, "learning_rate": 0.1, "beta1": 0.0, "beta2": 0.5, "momentum": 0.9, "weight_decay": 0.1,
    "grad_clip": 1.0,
}  # fmt: skip


def test_order_is_the_files_with_seeds_innermost() -> None:
    runs = expand(load_grid(STUDY))
    expected = [
        (residual, activation, width, rate, seed)
        for residual, activation, (width, rate), seed in product(
            (True, 0.5), ("relu", "radial"), ((8, 0.1), (16, 0.2)), (7, 3)
        )
    ]
    assert [(*run.axes.values(), run.seed) for run in runs] == expected
    assert runs[0].variant == "residual=true activation=relu width=8 learning_rate=0.1"
    assert list(runs[0].axes) == ["residual", "activation", "width", "learning_rate"]


def test_settings_of_a_run_are_the_base_with_its_values() -> None:
    run = expand(load_grid(STUDY))[-1]
    expected = load_grid(
        {
            "name": "x",
            "model": {"residual": 0.5, "activation": "radial", "width": 16},
            "training": {"learning_rate": 0.2},
        }
    )
    assert settings_by_name(run.settings) == settings_by_name(expected)
    assert Settings.model_validate(run.settings.model_dump(exclude={"training": {"steps"}})) == run.settings


def test_a_grid_without_axes_is_its_base() -> None:
    (run,) = expand(load_grid({"name": "x", "seeds": 1}))
    assert (run.variant, run.axes, run.seed) == ("base", {}, 0)


def test_exclude_leaves_out_partial_cells() -> None:
    runs = expand(load_grid(STUDY | {"exclude": [{"model.residual": True, "model.width": 8}]}))
    assert len(runs) == 12
    assert not any(run.axes["residual"] is True and run.axes["width"] == 8 for run in runs)
    assert count_runs(load_grid(STUDY | {"exclude": [{"model.residual": True}]})) == 16


@pytest.mark.parametrize(("axis", "value", "other"), [("steps", 3, "epochs"), ("epochs", 3, "steps")])
def test_an_axis_of_length_replaces_the_default(axis: str, value: int, other: str) -> None:
    (run,) = expand(load_grid({"name": "x", "sweep": {f"training.{axis}": [value]}, "seeds": 1}))
    assert getattr(run.settings.training, axis) == value
    assert getattr(run.settings.training, other) is None


def test_a_hundred_million_runs_are_counted_and_refused_at_once() -> None:
    values = [i / 1000 for i in range(1, 1001)]
    content = {
        "name": "big",
        "sweep": {"model.init_scale": values, "training.learning_rate": values},
        "seeds": 100,
    }
    grid = load_grid(content | {"exclude": [{"model.init_scale": value} for value in values[1:]]})
    began = time.process_time()
    assert count_runs(grid) == 100_000_000
    with pytest.raises(InputError, match=r"grid big: 100,000,000 runs .* --max-cells 100000000"):
        expand(grid)
    assert time.process_time() - began < 1
    assert count_runs(load_grid({"name": "x", "seeds": 4_000_000_000})) == 4_000_000_000


def test_the_limit_is_inclusive() -> None:
    assert len(expand(load_grid(STUDY), max_cells=16)) == 16
    with pytest.raises(InputError, match="16 runs are more than the limit of 15"):
        expand(load_grid(STUDY), max_cells=15)


def test_identities_are_those_of_settings_and_seed() -> None:
    runs = expand(load_grid(STUDY))
    assert [run.identity for run in runs] == [run_identity(run.settings, run.seed) for run in runs]
    assert len({run.identity for run in runs}) == len(runs)


def test_a_larger_grid_finds_the_runs_it_has() -> None:
    small = load_grid(STUDY)
    sweep = {
        "model.activation": ["gelu", "radial", "relu"],
        "model.residual": [0.5, 1.0],
        "model.norm": ["none"],
    }
    large = load_grid(STUDY | {"name": "large", "description": "d", "sweep": sweep, "seeds": 9})
    assert grid_hash(small) == grid_hash(large)
    assert {run.identity for run in expand(small)} <= {run.identity for run in expand(large)}


def test_identity_knows_values_not_spellings_or_folders() -> None:
    one = load_grid({"name": "a", "model": {"residual": 1, "init_scale": 1}, "data": {"dir": "here"}})
    other = load_grid({"name": "b", "model": {"residual": "on", "init_scale": "1.0e0"}, "data": {"dir": "there"}})
    assert run_identity(one, 0) == run_identity(other, 0)
    assert grid_hash(one) == grid_hash(other)


@pytest.mark.parametrize("dotted", [name for name in AXIS_NAMES if name != "data.dir"])
def test_every_setting_changes_the_identity(dotted: str) -> None:
    statics = {
        "depth": 3,
        "width": 8,
        "init": "he",
        "bias": True,
        "batch_size": 3,
        "optimizer": "sgd",
        "every": 7,
        "families": "all",
        "reference": 7,
        "svd": "fast",
        "examples": 7,
        "test_examples": 7,
    }
    others = OTHER_VALUES | statics | {"name": "mnist", "steps": 3, "epochs": 3}
    base = load_grid({"name": "x"})
    changed = load_grid({"name": "x"}, [f"{dotted}={others[short_name(dotted)]}"])
    assert run_identity(base, 0) != run_identity(changed, 0)
    assert grid_hash(base) != grid_hash(changed)


def test_identities_stay_what_they_were() -> None:
    # Stores on disk are found by these: a change here needs a new FORMAT_VERSION and a word in the changelog.
    assert run_identity(Settings(), 0) == "5dad3aa4fd8b3ccf"
    assert grid_hash(load_grid({"name": "x"})) == "2133f179"


def test_defaults_stay_what_they_were() -> None:
    # A default is no part of an identity: one that changes needs a new FORMAT_VERSION, a new setting does not.
    found = settings_by_name(Settings())
    assert {name: found[name] for name in DEFAULTS} == DEFAULTS
    assert set(found) == set(DEFAULTS)


DEFAULTS = {
    "kind": "residual_mlp",
    "depth": 16,
    "width": 256,
    "residual": True,
    "activation": "relu",
    "activation_scale": 1.0,
    "norm": "none",
    "init": "torch_uniform",
    "init_std": 0.02,
    "init_scale": 1.0,
    "bias": False,
    "name": "mnist10k",
    "batch_size": 128,
    "optimizer": "adam",
    "learning_rate": 0.001,
    "beta1": 0.9,
    "beta2": 0.999,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "grad_clip": 0.0,
    "steps": None,
    "epochs": 4,
    "every": "epoch",
    "families": "basic",
    "reference": "epoch",
    "svd": "exact",
    "examples": 2048,
    "test_examples": None,
}


def test_short_names_are_unique() -> None:
    names = [short_name(dotted) for dotted in FIELDS]
    assert len(set(names)) == len(names)
    assert {"seed", "variant", "status", "identity"}.isdisjoint(names)


def test_every_traced_setting_is_listed_once() -> None:
    assert set(TRACED) == set(OTHER_VALUES)
    assert len(TRACED) == len(OTHER_VALUES)
    assert set(BRANCHES) == {"activation", "norm"}


@pytest.mark.parametrize("name", TRACED)
def test_a_new_value_on_a_traced_axis_never_splits_a_program(name: str) -> None:
    dotted = next(dotted for dotted in FIELDS if short_name(dotted) == name)
    base = load_grid({"name": "x", "sweep": {dotted: [settings_by_name(Settings())[name], OTHER_VALUES[name]]}})
    runs = expand(base)
    (group,) = group_runs(runs)
    assert group.runs == runs
    assert traced_half(runs[0].settings)[name] != traced_half(runs[-1].settings)[name]


@pytest.mark.parametrize("override", ["depth=3", "width=8", "init=he", "bias=true"])
def test_a_static_axis_splits_programs_in_order_of_appearance(override: str) -> None:
    name, value = override.split("=")
    base = settings_by_name(Settings())[name]
    runs = expand(load_grid({"name": "x", "sweep": {f"model.{name}": [value, base], "model.residual": [0, 1]}}))
    groups = group_runs(runs)
    assert [len(group.runs) for group in groups] == [6, 6]
    assert groups[0].runs + groups[1].runs == runs
    assert hash(groups[0].static) != hash(groups[1].static)


def test_halves_split_the_settings() -> None:
    settings = load_grid({"name": "x", "model": {"activation": "radial", "residual": False}, "data": {"dir": "here"}})
    run = expand(settings)[0].settings
    static, traced = static_half(run), traced_half(run)
    assert (traced["activation"], traced["norm"], traced["residual"]) == (6, 0, 0.0)
    assert type(traced["activation"]) is int
    assert type(traced["residual"]) is float
    assert all(settings_by_name(static)[name] is None for name in TRACED)
    assert (static.data.dir, static.model.width, static.training.epochs) == ("here", 256, 4)
    assert static_half(run) == static
    assert hash(static_half(run)) == hash(static)
    assert "null" in static.model_dump_json()
    with pytest.raises(TypeError):
        static.model.init_scale * 2.0


@pytest.mark.slow
def test_a_hundred_thousand_cells_expand_in_seconds() -> None:
    rates = [i * 1e-6 for i in range(1, 100_001)]
    grid = load_grid({"name": "big", "sweep": {"training.learning_rate": rates}, "seeds": 1})
    began = time.process_time()
    runs = expand(grid, max_cells=100_000)
    assert len(group_runs(runs)[0].runs) == 100_000
    # 5.6 s on two cores of a shared machine; a validation of every cell would take minutes.
    assert time.process_time() - began < 30
