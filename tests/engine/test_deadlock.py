"""The LAPACK deadlock of several CPU devices: programs that would hang with stacks of matrices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("deadlock_program.py")
PREPARED = (
    "from geocont_jax import prepare_process; prepare_process();"
    "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
)


@pytest.mark.slow
def test_the_program_that_deadlocks_with_stacks_comes_to_its_end():
    # With stacks one try of 12 calls in three hangs for ever, so 30 calls seldom pass; matrix by matrix they take
    # about 20 s.
    environment = {name: value for name, value in os.environ.items() if name not in {"NPROC", "OPENBLAS_NUM_THREADS"}}
    command = [sys.executable, "-c", PREPARED, str(PROGRAM), "30"]
    done = subprocess.run(command, env=environment, timeout=180, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.slow
def test_a_sweep_that_only_measures_never_hangs(tmp_path):
    grid = tmp_path / "stress.yaml"
    grid.write_text(
        "name: stress\n"
        "model: {kind: residual_mlp, depth: 16, width: 64}\n"
        "data: {name: mnist10k, batch_size: 16}\n"
        "training: {steps: 40}\n"
        "measure: {every: 1}\n"
        "seeds: 4\n"
    )
    command = [sys.executable, "-m", "geocont_jax.sweep", str(grid), "--out", str(tmp_path), "--quiet"]
    environment = {name: value for name, value in os.environ.items() if name not in {"NPROC", "OPENBLAS_NUM_THREADS"}}
    done = subprocess.run(command, env=environment, timeout=240, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
