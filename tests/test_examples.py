"""The examples in docstrings and in the README work as they stand."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import geocont_jax
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.smoke import smoke

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SWEEPS = sorted((ROOT / "sweeps").glob("*.yaml"))
MODULES = [
    module.name
    for module in pkgutil.walk_packages(geocont_jax.__path__, "geocont_jax.")
    if not module.name.endswith("convert_mnist10k")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_the_readme_grid_loads(tmp_path):
    path = tmp_path / "my-question.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", README, re.DOTALL)[1])
    assert len(expand(load_grid(path))) == 3 * 3 * 3 * 5


def test_the_readme_names_every_grid():
    for path in SWEEPS:
        assert f"sweeps/{path.name}" in README


def test_the_readme_error_line_is_real(tmp_path):
    path = tmp_path / "my-question.yaml"
    text = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)[1]
    path.write_text(text.replace("model.norm", "model.nrom"))
    line = re.search(r"`(my-question\.yaml:\d+:\d+: .*?)`", README)[1]
    with pytest.raises(geocont_jax.InputError) as error:
        load_grid(path)
    assert str(error.value) == f"{tmp_path}/{line}"


@pytest.mark.parametrize("path", SWEEPS, ids=lambda p: p.name)
def test_a_shipped_sweep_runs_in_smoke_mode(path, tmp_path):
    before = path.read_text()
    records = geocont_jax.run_sweep(smoke(load_grid(path)), tmp_path)
    assert (records.status == "ok").all()
    assert path.read_text() == before
