"""What the compiled program is made of: no talk between devices, LAPACK matrix by matrix, real branches."""

import math
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


@pytest.mark.parametrize("layout", [Layout(2, 4, 1), Layout(1, 2, 3)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"measure": {"svd": "fast"}}, {"model": {"init": "orthogonal"}}], ids=str)
def test_lapack_gets_one_matrix_at_a_time(layout, settings):
    # Of more it would share them out over a pool that the devices may hold (docs/architecture.md, the deadlock).
    task = make_tasks(expand(load_grid(merged(GRID, settings))), layout)[0]
    text = compile_program(task.program, task.layout, task.data).executable.as_text()
    shapes = re.findall(r"= \(?\w+\[([\d,]*)\].*custom_call_target=\"lapack_", text)
    assert shapes
    assert all(math.prod(map(int, shape.split(",")[:-2])) == 1 for shape in shapes)


def merged(grid, settings):
    return grid | {name: grid.get(name, {}) | section for name, section in settings.items()}


def test_activations_are_branches_also_abreast(compiled):
    branches = re.findall(r"branch_computations=\{([^}]*)\}", compiled.executable.as_text())
    assert max(len(names.split(",")) for names in branches) >= 7


def test_it_takes_new_values_but_no_new_shapes(compiled):
    with pytest.raises(TypeError):
        compiled({"seed": np.zeros(1)}, None, np.ones(compiled.layout.capacity, bool), None, 0, 1, True)
