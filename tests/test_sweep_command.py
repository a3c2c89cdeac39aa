"""The command: exit statuses, what it prints where, and options that change nothing they should not."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from geocont_jax import sweep
from geocont_jax.engine import runner
from geocont_jax.engine.store import RecordStore

TINY = """
name: tiny
model: {depth: 4, width: 16}
data: {batch_size: 32}
training: {steps: 6}
measure: {every: 2}
sweep: {model.activation: [relu, identity]}
seeds: 2
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


def run(capsys, *arguments):
    status = sweep.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_table_and_folder_on_stdout_and_progress_on_stderr(grid, tmp_path, capsys):
    status, out, err = run(capsys, grid, "--out", str(tmp_path / "out"))
    assert status == 0
    assert out.splitlines()[-1].startswith(f"results: {tmp_path}/out/tiny-")
    assert "weight v1" in out
    assert "chance" in out
    first, second = err.splitlines()[:2]
    assert first.startswith("geocont_jax on cpu, 2 devices")
    assert second.startswith("tiny: 1 program x 4 runs (2 variants, seeds 0, 1), 24 run-steps")


def test_quiet_says_nothing_on_stderr(grid, tmp_path, capsys):
    assert run(capsys, grid, "--out", str(tmp_path / "out"), "--quiet")[2] == ""


def test_a_dry_run_tells_programs_runs_memory_and_time_and_writes_nothing(grid, tmp_path, capsys):
    status, out, _ = run(capsys, grid, "--out", str(tmp_path / "out"), "--dry-run")
    assert status == 0
    assert "1 program x 4 runs" in out
    assert "MiB in all" in out
    assert "in all; nothing was written" in out
    assert os.listdir(tmp_path) == ["tiny.yaml"]


def test_smoke_and_set_go_to_folders_of_their_own(grid, tmp_path, capsys):
    folders = set()
    for extra in ([], ["--smoke"], ["--set", "seeds=1"]):
        status, out, _ = run(capsys, grid, "--out", str(tmp_path / "out"), "--quiet", *extra)
        assert status == 0
        folders.add(out.splitlines()[-1])
    assert len(folders) == 2  # other seeds share the folder of the grid


def test_diverged_runs_give_status_3_and_are_named(grid, tmp_path, capsys):
    arguments = (grid, "--out", str(tmp_path), "--quiet", "--set", "sweep.model.init_scale=[1.0, 1e20]")
    status, out, err = run(capsys, *arguments)
    assert status == 3
    assert "diverged" in out
    assert err.count("diverged at step 0") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.yaml"], "missing.yaml: no such file"),
        (["{grid}", "--set", "model.widht=3"], "did you mean"),
        (["{grid}", "--max-cells", "3"], "--max-cells"),
        (["{grid}", "--require", "tpu"], "--require tpu: JAX found only cpu"),
        (["{grid}", "--set", "data.name=npz:nowhere.npz"], "nowhere.npz"),
        (["{grid}", "--set", "data.batch_size=9001"], "between 1 and 9000"),
    ],
    ids=str,
)
def test_wrong_input_is_one_line_and_status_2(arguments, message, grid, tmp_path, capsys):
    status, out, err = run(capsys, *(word.format(grid=grid) for word in arguments), "--out", str(tmp_path), "--quiet")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


@pytest.mark.parametrize("arguments", [[], ["grid.yaml", "--nonsense"], ["grid.yaml", "--max-cells", "0"], ["a", "b"]])
def test_wrong_usage_is_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        sweep.main(arguments)
    assert stop.value.code == 2


def test_the_schema_is_json(capsys):
    status, out, _ = run(capsys, "--schema")
    assert status == 0
    assert "properties" in json.loads(out)


def test_a_full_disk_is_one_line_and_what_was_saved_stays(grid, tmp_path, capsys, monkeypatch):
    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RecordStore, "write", full)
        status, _, err = run(capsys, grid, "--out", str(tmp_path / "out"), "--quiet")
    assert status == 1
    assert "No space left on device" in err
    assert len(err.splitlines()) == 1
    assert run(capsys, grid, "--out", str(tmp_path / "out"), "--quiet")[0] == 0


def test_a_finished_sweep_prints_the_same_table_again(grid, tmp_path, capsys, monkeypatch):
    first = run(capsys, grid, "--out", str(tmp_path / "out"))[1]
    monkeypatch.setattr(runner, "compile_program", lambda *a: pytest.fail("compiled again"))
    assert run(capsys, grid, "--out", str(tmp_path / "out"))[1] == first


@pytest.mark.slow
def test_ctrl_c_saves_and_gives_status_130_and_the_same_command_goes_on(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text(TINY.replace("steps: 6", "steps: 200000").replace("every: 2", "every: 10000"))
    command = [sys.executable, "-m", "geocont_jax.sweep", str(path), "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        while not process.stderr.readline().startswith("program"):
            pass
        time.sleep(3.0)  # well into the first call
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        lines = iter(process.stderr.readline, "")
        assert any(line.startswith("resuming 4 runs at step") for line in lines)
        process.kill()
