"""The examples in this room's docstrings."""

import doctest
import importlib
import pkgutil

import pytest

from geocont_jax import experiment

MODULES = [module.name for module in pkgutil.iter_modules(experiment.__path__, "geocont_jax.experiment.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
