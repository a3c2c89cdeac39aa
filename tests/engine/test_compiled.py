"""What the compiled program is made of: no talk between devices, one LAPACK call, real branches."""

import re

import numpy as np
import pytest

from geocont_jax.engine.compiled import compile_program
from geocont_jax.engine.layout import Layout
from geocont_jax.engine.tasks import make_tasks
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid
from tests.engine.test_sweep import GRID

COLLECTIVES = "all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute"


@pytest.fixture(scope="module", params=[Layout(2, 4, 1), Layout(1, 2, 3)], ids=str)
def compiled(request):
    task = make_tasks(expand(load_grid(GRID)), request.param)[0]
    return compile_program(task.program, task.layout, task.data)


def test_devices_never_talk_to_each_other(compiled):
    assert not re.search(COLLECTIVES, compiled.executable.as_text())


def test_one_lapack_call_serves_all_families(compiled):
    # The argument against the deadlock counts on this (docs/architecture.md).
    calls = re.findall(r'custom_call_target="(lapack_\w+)"', compiled.executable.as_text())
    assert calls == ["lapack_sgesdd_ffi"]


def test_lapack_calls_of_the_fast_solver_wait_for_each_other():
    """Each needs what the one before it gives: at most one is in flight. The exact SVD takes one matrix at a time."""
    task = make_tasks(expand(load_grid(GRID | {"measure": {"svd": "fast"}})), Layout(1, 1, 1))[0]
    text = compile_program(task.program, task.layout, task.data).executable.as_text()
    calls = re.findall(r'custom_call_target="(lapack_\w+)"', text)
    assert sorted(set(calls)) == ["lapack_sgesdd_ffi", "lapack_spotrf_ffi", "lapack_ssyevd_ffi", "lapack_strsm_ffi"]
    assert calls.count("lapack_sgesdd_ffi") == 1


def test_activations_are_branches_also_abreast(compiled):
    branches = re.findall(r"branch_computations=\{([^}]*)\}", compiled.executable.as_text())
    assert max(len(names.split(",")) for names in branches) >= 7


def test_it_takes_new_values_but_no_new_shapes(compiled):
    with pytest.raises(TypeError):
        compiled({"seed": np.zeros(1)}, None, np.ones(compiled.layout.capacity, bool), None, 0, 1, True)
