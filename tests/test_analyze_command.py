"""The command on small models: what it prints, what it leaves behind, how it goes on, and how it says no."""

import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from geocont_jax import analyze
from geocont_jax.files import held
from geocont_jax.pretrained import walk
from tests.pretrained.models import write_llama

QUIET = ("--quiet", "--window", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return folder, write_llama(folder)


def run(folder, out, *options):
    return analyze.main([str(folder), "--out", str(out), *QUIET, *options])


def cosines(tensors, name, side, num_layers=3):
    matrices = [tensors[f"model.layers.{layer}.{name}.weight"].astype(np.float64) for layer in range(num_layers)]
    leading = [np.linalg.svd(m)[2][0] if side == "v" else np.linalg.svd(m)[0][:, 0] for m in matrices]
    return [abs(a @ b) for a, b in zip(leading[:-1], leading[1:], strict=True)]


def test_everything_is_measured_and_agrees_with_numpy(model, tmp_path, capsys):
    folder, tensors = model
    assert run(folder, tmp_path, "--per-head") == 0
    printed = capsys.readouterr().out
    assert "tiny: " in printed
    assert f"results: {tmp_path / 'tiny'}" in printed
    found = xr.open_zarr(tmp_path / "tiny" / "continuity.zarr").load()
    for projection, name in {"q": "self_attn.q_proj", "down": "mlp.down_proj", "k": "self_attn.k_proj"}.items():
        for side in ("v", "u"):
            measured = found[f"weight_{side}1_cosine"].sel(projection=projection)
            np.testing.assert_allclose(measured, cosines(tensors, name, side), atol=1e-3)
    gate = tensors["model.layers.1.mlp.gate_proj.weight"]
    values = np.linalg.svd(gate, compute_uv=False)
    np.testing.assert_allclose(found["singular_values"].sel(projection="gate", layer=1)[:16], values, rtol=1e-4)
    np.testing.assert_allclose(found["own_energy"].sel(projection="gate", rank=1).values[0],
                               np.mean([_leading_share(tensors, layer) for layer in (0, 1)]), rtol=1e-4)  # fmt: skip
    assert found["weight_head_cosine"].sel(projection="q").shape == (2, 4, 4)
    assert np.isnan(found["weight_head_cosine"].sel(projection="k").values[:, 2:]).all()


def _leading_share(tensors, layer):
    values = np.linalg.svd(tensors[f"model.layers.{layer}.mlp.gate_proj.weight"], compute_uv=False)
    return values[0] ** 2 / np.sum(values**2)


@pytest.mark.parametrize(("small_bytes", "decomposed_again"), [(walk.SMALL_BYTES, 1), (0, 0)])
def test_the_command_goes_on_where_it_was_killed_and_gives_the_same(
    model, tmp_path, monkeypatch, small_bytes, decomposed_again
):
    """A matrix that is done is not done again; the neighbour of the next is kept where decomposing it takes long."""
    folder, _ = model
    assert run(folder, tmp_path / "whole") == 0
    monkeypatch.setattr(walk, "SMALL_BYTES", small_bytes)
    measured, real = [], walk.decompose_matrix

    def dies(matrix):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(matrix)
        return real(matrix)

    monkeypatch.setattr(walk, "decompose_matrix", dies)
    assert run(folder, tmp_path / "parts") == 130
    again = []
    monkeypatch.setattr(walk, "decompose_matrix", lambda matrix: again.append(matrix) or real(matrix))
    assert run(folder, tmp_path / "parts") == 0
    assert len(again) == 7 * 3 - 5 + decomposed_again
    whole, parts = (xr.open_zarr(tmp_path / name / "tiny" / "continuity.zarr").load() for name in ("whole", "parts"))
    xr.testing.assert_equal(whole, parts)
    assert run(folder, tmp_path / "parts") == 0
    assert len(again) == 7 * 3 - 5 + decomposed_again


def test_a_window_that_was_lost_behind_its_last_matrix_is_made_up(model, tmp_path, monkeypatch):
    folder, _ = model
    assert run(folder, tmp_path / "whole") == 0

    def dies(total, num_rows):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(walk, "energies", dies)
        for _ in range(7):  # each time another projection loses its window
            assert run(folder, tmp_path / "parts") == 130
    assert run(folder, tmp_path / "parts") == 0
    whole, parts = (xr.open_zarr(tmp_path / name / "tiny" / "continuity.zarr").load() for name in ("whole", "parts"))
    xr.testing.assert_equal(whole, parts)


def test_a_folder_in_which_another_process_writes_is_left_alone(model, tmp_path, capsys):
    folder, _ = model
    with held(tmp_path / "tiny"):
        assert run(folder, tmp_path) == 2
    assert "another process is writing here" in capsys.readouterr().err


def test_some_layers_and_projections_first_and_the_rest_later(model, tmp_path):
    folder, _ = model
    assert run(folder, tmp_path, "--layers", "1:3", "--projections", "q,o") == 0
    some = xr.open_zarr(tmp_path / "tiny" / "continuity.zarr").load()
    assert (some["projection"].values.tolist(), some["layer"].values.tolist()) == (["q", "o"], [1, 2])
    assert run(folder, tmp_path) == 0
    assert xr.open_zarr(tmp_path / "tiny" / "continuity.zarr").sizes["layer"] == 3


def test_other_options_or_another_checkpoint_need_another_place(model, tmp_path, capsys):
    folder, _ = model
    assert run(folder, tmp_path, "--projections", "q") == 0
    capsys.readouterr()
    assert run(folder, tmp_path, "--projections", "q", "--fold-norms") == 2
    assert "another fold_norms; name another --out" in capsys.readouterr().err
    other = tmp_path / "other" / "tiny"
    write_llama(other, seed=1)
    assert run(other, tmp_path, "--projections", "q") == 2
    assert "another checkpoint" in capsys.readouterr().err


def test_describe_reads_no_weight(model, capsys, tmp_path, monkeypatch):
    folder, _ = model
    monkeypatch.setattr(walk, "read_matrix", None)
    assert run(folder, tmp_path, "--describe") == 0
    out = capsys.readouterr().out
    assert "21 matrices" in out
    assert "model.layers.0.self_attn.q_proj.weight" in out
    assert not list(tmp_path.iterdir())


def test_float64_and_folded_norms_agree_with_numpy(model, tmp_path):
    folder, tensors = model
    command = [sys.executable, "-m", "geocont_jax.analyze", str(folder), "--out", str(tmp_path), *QUIET,
               "--dtype", "float64", "--fold-norms", "--projections", "q"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr
    found = xr.open_zarr(tmp_path / "tiny" / "continuity.zarr")["weight_v1_cosine"].sel(projection="q")
    folded = {
        f"model.layers.{layer}.self_attn.q_proj.weight": tensors[f"model.layers.{layer}.self_attn.q_proj.weight"]
        * tensors[f"model.layers.{layer}.input_layernorm.weight"]
        for layer in range(3)
    }
    np.testing.assert_allclose(found, cosines(folded, "self_attn.q_proj", "v"), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--layers", "2:9"), "has layers 0 to 2"),
        (("--projections", "q,experts"), "unknown experts"),
        (("--layers", "2"), "two layer numbers are needed"),
        (("--window", "1"), "shares nothing"),
        (("--top-k", "0"), "at least 1"),
    ],
)
def test_wrong_usage_is_one_line(model, tmp_path, capsys, options, message):
    folder, _ = model
    try:
        status = run(folder, tmp_path, *options)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_nothing_to_open_is_one_line(tmp_path, capsys):
    assert run(tmp_path / "nowhere", tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "nowhere" in line
