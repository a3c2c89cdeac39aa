"""Whole sweeps: what they leave, what they do again, and that no way of running them changes the result."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from geocont_jax import InputError, load_results, run_sweep
from geocont_jax.engine import flight, runner
from geocont_jax.engine.checkpoint import CheckpointFolder, Saved
from geocont_jax.engine.layout import Layout
from geocont_jax.engine.store import STORE_VERSION
from geocont_jax.experiment.sections import MeasureSection
from geocont_jax.progress import Reporter
from geocont_jax.training.measure import fields_of

GRID = {
    "name": "tiny",
    "model": {"kind": "residual_mlp", "depth": 4, "width": 16},
    "data": {"name": "mnist10k", "batch_size": 32},
    "training": {"steps": 6},
    "measure": {"every": 2},
    "sweep": {"model.residual": [True, False], "model.activation": ["relu", "identity"]},
    "seeds": 2,
}


def sweep(grid, out, **options):
    return run_sweep(grid, out, reporter=Reporter(quiet=True), **options)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return sweep(GRID, tmp_path_factory.mktemp("reference"))


def assert_same_records(found, expected, atol=0.0):
    order = [found["identity"].values.tolist().index(i) for i in expected["identity"].values.tolist()]
    for name in fields_of(MeasureSection()):
        np.testing.assert_allclose(found[name].values[order], expected[name].values, rtol=0, atol=atol, err_msg=name)


def test_the_store_opens_with_xarray_alone(reference):
    path = f"{reference.attrs['folder']}/records.zarr"
    code = f"import xarray; print(sorted(xarray.open_zarr({path!r}).sizes.items()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('layer', 4), ('other_layer', 4), ('pair', 3), ('record', 4), ('run', 8)]"
    dataset = xr.open_zarr(path)
    assert dataset.weight_v1_cosine.dims == ("run", "record", "pair")
    assert dataset.update_ratio.dims == ("run", "record")
    assert dataset.step.values.tolist() == [0, 2, 4, 6]
    assert {"residual", "activation", "seed", "variant", "status"} <= set(dataset.coords)
    assert dataset.status.values.tolist() == ["ok"] * 8
    assert dataset.residual.dtype == bool
    assert np.isfinite(dataset.weight_v1_cosine).all()
    assert np.isnan(dataset.update_v1_cosine.isel(record=0)).all()
    assert (dataset.update_defect.isel(record=0) == 1).all()


def test_the_folder_holds_spec_manifest_and_summary(reference, tmp_path):
    folder = reference.attrs["folder"]
    assert set(os.listdir(folder)) >= {
        "spec.yaml",
        "manifest.json",
        "records.zarr",
        "summary.csv",
        "checkpoints",
    }
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    assert manifest["sessions"][0]["versions"]["jax"] == jax.__version__
    assert "environ" not in json.dumps(manifest)
    table = pd.read_csv(f"{folder}/summary.csv")
    assert table["n_ok"].tolist() == [2] * 4
    last = reference.isel(record=-1)
    means = last.weight_v1_cosine.mean("pair").values.reshape(4, 2)
    np.testing.assert_allclose(table["weight_v1_cosine_mean"], means.mean(1), rtol=1e-5)
    np.testing.assert_allclose(table["weight_v1_cosine_sd"], means.std(1, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(table["weight_v1_cosine_chance"], np.sqrt(2 / (np.pi * 16)), rtol=1e-6)
    # The resolved spec is a grid file for the same folder.
    assert sweep(f"{folder}/spec.yaml", tmp_path).attrs["folder"].endswith(os.path.basename(folder))


def test_a_finished_sweep_only_prints(reference, monkeypatch):
    monkeypatch.setattr(runner, "compile_program", lambda *a: pytest.fail("compiled again"))
    again = sweep(GRID, os.path.dirname(reference.attrs["folder"]))
    assert_same_records(again, reference)


def test_an_enlarged_grid_runs_only_its_new_cells(reference, tmp_path, monkeypatch):
    sweep(GRID, tmp_path)
    asked = []
    real = flight.Flight.run

    def noted(self, task, runs, *rest):
        asked.extend(runs)
        real(self, task, runs, *rest)

    monkeypatch.setattr(flight.Flight, "run", noted)
    larger = GRID | {"seeds": 3, "sweep": GRID["sweep"] | {"model.activation": ["relu", "identity", "tanh"]}}
    records = sweep(larger, tmp_path)
    assert len(asked) == 18 - 8
    assert records.sizes["run"] == 18
    assert (records.status == "ok").all()
    kept = records.isel(run=np.isin(records.identity, reference.identity))
    assert_same_records(kept, reference)
    smaller = sweep(GRID, tmp_path)
    assert smaller.sizes["run"] == 8
    assert load_results(records.attrs["folder"]).sizes["run"] == 18


def test_one_program_and_one_compilation_for_the_whole_grid(tmp_path, monkeypatch):
    programs = []
    real = runner.compile_program
    monkeypatch.setattr(runner, "compile_program", lambda *a: programs.append(a) or real(*a))
    wide = GRID | {
        "sweep": {"model.residual": [True, False, 0.5], "model.norm": ["none", "layernorm", "rmsnorm"],
                  "training.learning_rate": [1e-3, 1e-2]},
        "zip": {"training.beta2": [0.0, 0.999], "training.weight_decay": [0.1, 0.0], "training.grad_clip": [0.0, 1.0]},
        "seeds": [3],
        "training": {"steps": 1},
    }  # fmt: skip
    records = sweep(wide, tmp_path)
    assert records.sizes["run"] == 36
    assert len(programs) == 1


# On a CPU with one lane a run's arithmetic does not depend on its company, so these are equal to the last bit. With
# several lanes products are batched and summed in another order: a relative 1e-6 a step at most, grown by training
# and, where the leading values lie close together, by 1 / gap in the singular vectors.
@pytest.mark.parametrize(
    ("layout", "atol"),
    [
        (Layout(1, 8, 1), 0.0),
        (Layout(2, 3, 1), 0.0),
        (Layout(1, 2, 3), 2e-3),
    ],
    ids=str,
)
def test_devices_and_chunks_do_not_change_the_result(layout, atol, reference, tmp_path):
    assert_same_records(sweep(GRID, tmp_path, layout=layout), reference, atol)


def test_a_diverging_run_leaves_the_others_as_they_are(reference, tmp_path, capsys):
    grid = GRID | {"sweep": GRID["sweep"] | {"model.init_scale": [1.0, 1e20]}}
    began = time.monotonic()
    records = sweep(grid, tmp_path)
    assert time.monotonic() - began < 60
    wild = records.init_scale.values > 1
    assert (records.status.values == np.where(wild, "diverged", "ok")).all()
    assert (records.diverged_at.values[wild] == 0).all()
    assert np.isnan(records.weight_v1_cosine.values[wild]).all()
    healthy = records.isel(run=~wild)
    for name in fields_of(MeasureSection()):
        np.testing.assert_array_equal(healthy[name].values, reference[name].values, err_msg=name)
    assert "diverged at step 0" in capsys.readouterr().err


def test_fail_fast_saves_and_stops(tmp_path):
    grid = GRID | {
        "training": {"steps": 6, "optimizer": "sgd"},
        "sweep": {"training.learning_rate": [1e20, 0.1]},
    }
    records = sweep(grid, tmp_path, fail_fast=True, layout=Layout(1, 1, 1))
    assert "pending" in records.status.values
    assert (sweep(grid, tmp_path).status != "pending").all()


def test_out_of_memory_halves_the_chunk_and_goes_on(reference, tmp_path, monkeypatch, capsys):
    sizes, real = [], runner.compile_program

    def short_of_memory(program, layout, data):
        sizes.append(layout.capacity)
        if layout.capacity > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return real(program, layout, data)

    monkeypatch.setattr(runner, "compile_program", short_of_memory)
    assert_same_records(sweep(GRID, tmp_path, layout=Layout(2, 4, 1)), reference)
    assert sizes == [8, 4, 2]
    assert "out of memory" in capsys.readouterr().err


def test_a_second_process_is_refused(tmp_path):
    folder = sweep(GRID, tmp_path).attrs["folder"]
    code = (
        "import sys, time; from filelock import FileLock; lock = FileLock(sys.argv[1]);"
        "lock.acquire(); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, f"{folder}/.lock"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another process is writing here"):
            sweep(GRID, tmp_path)
        holder.kill()
    sweep(GRID, tmp_path)


def test_a_store_of_another_version_is_refused_by_name(tmp_path):
    folder = sweep(GRID, tmp_path).attrs["folder"]
    dataset = xr.open_zarr(f"{folder}/records.zarr").load()
    dataset.attrs["store_version"] = STORE_VERSION + 1
    dataset.to_zarr(f"{folder}/records.zarr", mode="w", zarr_format=2, consolidated=True)
    with pytest.raises(InputError, match=f"store format {STORE_VERSION + 1}"):
        sweep(GRID, tmp_path)


def test_an_interrupted_swap_is_undone(tmp_path, reference):
    folder = sweep(GRID, tmp_path).attrs["folder"]
    os.rename(f"{folder}/records.zarr", f"{folder}/records.old")
    assert_same_records(load_results(folder), reference)


def test_groups_of_different_depth_share_a_store(tmp_path):
    grid = GRID | {"sweep": {}, "zip": {"model.depth": [3, 4], "model.width": [8, 16]}, "seeds": 1}
    records = sweep(grid, tmp_path)
    assert records.sizes["pair"] == 3
    shallow = records.depth.values == 3
    assert np.isnan(records.weight_v1_cosine.values[shallow][..., 2]).all()
    assert np.isfinite(records.weight_v1_cosine.values[shallow][..., :2]).all()
    table = pd.read_csv(f"{records.attrs['folder']}/summary.csv")
    np.testing.assert_allclose(table["weight_v1_cosine_chance"], np.sqrt(2 / (np.pi * table["width"])), rtol=1e-6)


SCRIPT = """
import sys
from geocont_jax import prepare_process
prepare_process()
from geocont_jax import run_sweep
from geocont_jax.engine import flight
flight.CALL_SECONDS = 0.01
run_sweep(sys.argv[1], sys.argv[2], checkpoint_seconds=0.0)
"""


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_same_records(tmp_path):
    """Equal to the last bit: a checkpoint holds the whole state, and steps do not know of pauses."""
    spec = tmp_path / "grid.yaml"
    spec.write_text(
        "name: kill\nmodel: {depth: 4, width: 32}\ndata: {batch_size: 64}\ntraining: {steps: 400}\n"
        "measure: {every: 50}\nsweep: {model.activation: [relu, radial]}\nseeds: 3\n"
    )
    expected = sweep(spec, tmp_path / "undisturbed")
    chance = random.Random(0)
    command = [sys.executable, "-c", SCRIPT, str(spec), str(tmp_path / "killed")]
    for _ in range(5):
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            for line in process.stderr:  # wait for the first words after compiling, then for a random while
                if line.startswith("program"):
                    break
            time.sleep(chance.uniform(0.0, 1.5))
            process.send_signal(signal.SIGKILL)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    found = load_results(next((tmp_path / "killed").iterdir()))
    assert (found.status == "ok").all()
    assert_same_records(found, expected)


def checkpointed(tmp_path, monkeypatch):
    """Stop a sweep half-way, as Ctrl-C does, and return its folder."""
    real = flight._Call._pause

    def interrupt(self, state, step, number):
        self._flight._stop.requested = step >= 4
        real(self, state, step, number)

    with monkeypatch.context() as patch:
        patch.setattr(flight._Call, "_pause", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(GRID, tmp_path)
    return next(tmp_path.iterdir())


def test_an_interrupted_sweep_resumes_from_its_checkpoint(reference, tmp_path, monkeypatch):
    checkpointed(tmp_path, monkeypatch)
    starts, real = [], flight._Call._advance

    def noted(self, state, start, stop, is_record):
        starts.append(start)
        return real(self, state, start, stop, is_record)

    monkeypatch.setattr(flight._Call, "_advance", noted)
    assert_same_records(sweep(GRID, tmp_path), reference)
    assert min(starts) == 4


def test_it_resumes_on_another_number_of_devices(reference, tmp_path, monkeypatch):
    checkpointed(tmp_path, monkeypatch)
    assert_same_records(sweep(GRID, tmp_path, layout=Layout(1, 3, 1)), reference)


def test_an_unfinished_checkpoint_folder_and_a_relative_path_do_no_harm(reference, tmp_path, monkeypatch):
    folder = checkpointed(tmp_path, monkeypatch)
    (folder / "checkpoints" / "7.orbax-checkpoint-tmp-123" / "state").mkdir(parents=True)
    monkeypatch.chdir(tmp_path.parent)
    assert_same_records(sweep(GRID, tmp_path.name), reference)


def test_a_damaged_checkpoint_is_skipped_with_a_word(reference, tmp_path, monkeypatch, capsys):
    folder = checkpointed(tmp_path, monkeypatch)
    for path in (folder / "checkpoints").rglob("*"):
        if path.is_file() and "state" in path.parts:
            path.unlink()
    assert_same_records(sweep(GRID, tmp_path), reference)
    assert "checkpoint skipped" in capsys.readouterr().err


def test_a_checkpoint_of_other_shapes_is_refused(tmp_path):
    folder = CheckpointFolder(tmp_path)
    folder.save(Saved(("a",), "p", 3, 2, {"x": np.zeros((1, 3), np.float32)}))
    said = []
    assert folder.latest(lambda label, n: {"x": jax.ShapeDtypeStruct((n, 4), np.float32)}, said.append) is None
    assert "other shapes" in said[0]
    found = folder.latest(lambda label, n: {"x": jax.ShapeDtypeStruct((n, 3), np.float32)}, said.append)
    assert (found.step, found.num_records, found.identities) == (3, 2, ("a",))
    folder.close()
