"""Planted truth: layers whose leading directions have known cosines, written in every format and read from there."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from geocont_jax.pretrained.checkpoint import open_checkpoint
from geocont_jax.pretrained.projections import ROLES
from geocont_jax.pretrained.roles import find_roles, read_matrix
from tests.pretrained.checkpoint_files import write_gguf, write_safetensors
from tests.pretrained.families import (
    GGUF,
    NUM_HEADS,
    NUM_KV_HEADS,
    gguf_config,
    gguf_llama,
    gpt2,
    llama,
    neox,
    phi3,
    plain,
)

NUM_LAYERS, HIDDEN, FFN = 3, 64, 96
SHAPES = {
    "q": (HIDDEN, HIDDEN),
    "k": (HIDDEN // 2, HIDDEN),
    "v": (HIDDEN // 2, HIDDEN),
    "o": (HIDDEN, HIDDEN),
    "gate": (FFN, HIDDEN),
    "up": (FFN, HIDDEN),
    "down": (HIDDEN, FFN),
}
UNGATED = {name: (HIDDEN, HIDDEN) if name in "kv" else shape for name, shape in SHAPES.items() if name != "gate"}
COSINES = {"v": 0.8, "u": 0.5}  # of neighbours' v1 and u1; chance is about 0.1
CONFIG = {
    "num_hidden_layers": NUM_LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": NUM_HEADS,
    "num_key_value_heads": NUM_KV_HEADS,
}
GPT2_CONFIG = {"n_layer": NUM_LAYERS, "n_embd": HIDDEN, "n_head": NUM_HEADS}


def chain(rng, dimension, cosine):
    """Unit directions, a layer each, with |cos| `cosine` between neighbours."""
    directions = []
    for _ in range(NUM_LAYERS):
        direction = rng.normal(size=dimension)
        if directions:
            direction -= (direction @ directions[-1]) * directions[-1]
            direction *= np.sqrt(1 - cosine**2) / np.linalg.norm(direction)
            direction += cosine * directions[-1]
        directions.append(direction / np.linalg.norm(direction))
    return directions


def planted(shapes=SHAPES, seed=0):
    """Layers whose v1 and u1 have `COSINES` between neighbours; s1 = 2 and s2 is about 1."""
    rng = np.random.default_rng(seed)
    layers = [{} for _ in range(NUM_LAYERS)]
    for name, (d_out, d_in) in shapes.items():
        directions = zip(chain(rng, d_out, COSINES["u"]), chain(rng, d_in, COSINES["v"]), strict=True)
        for layer, (u, v) in zip(layers, directions, strict=True):
            noise = rng.normal(size=(d_out, d_in)) / (np.sqrt(d_out) + np.sqrt(d_in))
            noise -= np.outer(u, u @ noise)  # no share in the leading directions, so that these are exact
            noise -= np.outer(noise @ v, v)
            layer[name] = (2 * np.outer(u, v) + noise).astype(np.float32)
    return layers


def safetensors(write=llama, config=CONFIG, **options):
    return lambda folder, layers: write_safetensors(folder, write(layers), config=config, **options)


def gguf(write=gguf_llama, arch="llama", **options):
    metadata = gguf_config(arch, NUM_LAYERS, HIDDEN, NUM_KV_HEADS)
    del metadata["general.architecture"]  # the writer adds it
    return lambda folder, layers: write_gguf(
        folder / "model.gguf", write(layers), arch=arch, metadata=metadata, **options
    )


# What storing does to a matrix, as |E|/|W| in Frobenius norm. A float with p bits of mantissa is off by 2^-(p+1) at the
# most. A block of 32 weights is cut into steps of its largest entry m over 127 (Q8_0) or 8 (Q4_0); normal weights have
# m of 2.1 standard deviations in the mean, and steps d leave errors of d / sqrt(12): 0.5 % and 8 %, and we allow for a
# quarter more. (Q4_0 has no step for m of the other sign, which is rare.)
FORMATS = {
    "safetensors f32": (safetensors(), SHAPES, 2**-24),
    "safetensors f16": (safetensors(dtype="F16"), SHAPES, 2**-11),
    "safetensors bf16 in shards": (safetensors(shards=3, dtype="BF16"), SHAPES, 2**-8),
    "phi3, fused": (safetensors(phi3), SHAPES, 2**-24),
    "gpt2, fused and transposed": (safetensors(gpt2, GPT2_CONFIG), UNGATED, 2**-24),
    "gpt-neox, fused by head": (safetensors(neox, {"num_attention_heads": NUM_HEADS}), UNGATED, 2**-24),
    "gguf, permuted": (gguf(), SHAPES, 2**-24),
    "gguf, not permuted": (gguf(plain("blk.{}.", GGUF), "qwen3"), SHAPES, 2**-24),
    "gguf q8_0": (gguf(quantization="Q8_0"), SHAPES, 1.25 * 2.1 / 127 / np.sqrt(12)),
    "gguf q4_0": (gguf(quantization="Q4_0"), SHAPES, 1.25 * 2.1 / 8 / np.sqrt(12)),
}


def cosines(matrices):
    """Return |cos| of the leading directions of neighbours, by side."""
    spectra = [np.linalg.svd(np.asarray(matrix, np.float64), full_matrices=False) for matrix in matrices]
    leading = {"v": [vh[0] for _, _, vh in spectra], "u": [u[:, 0] for u, _, _ in spectra]}
    return {side: np.array([abs(a @ b) for a, b in pairwise(of)]) for side, of in leading.items()}


def assert_planted(matrices, atol):
    for side, found in cosines(matrices).items():
        np.testing.assert_allclose(found, COSINES[side], atol=atol)


def read_all(checkpoint, fold_norm=False):
    model = find_roles(checkpoint)
    return {name: [read_matrix(checkpoint, ref, fold_norm) for ref in refs] for name, refs in model.matrices.items()}


@pytest.mark.parametrize("name", FORMATS)
def test_planted_cosines_are_found_in_every_format(tmp_path, name):
    """An error E of a matrix turns its leading directions by up to |E| / (s1 - s2 - |E|), Wedin (1972)."""
    write, shapes, stored_error = FORMATS[name]
    layers = planted(shapes)
    found = read_all(open_checkpoint(write(tmp_path, layers)))
    assert set(found) == set(shapes)
    for projection, matrices in found.items():
        true = [layer[projection] for layer in layers]
        errors = [matrix - original for matrix, original in zip(matrices, true, strict=True)]
        for error, original in zip(errors, true, strict=True):
            assert np.linalg.norm(error) <= stored_error * np.linalg.norm(original)
        values = [np.linalg.svd(original, compute_uv=False) for original in true]
        norms = [np.linalg.norm(error, 2) for error in errors]
        turned = [norm / (s[0] - s[1] - norm) for norm, s in zip(norms, values, strict=True)]
        rounding = 1e-6  # of float32 in what was planted
        bounds = np.array([sum(pair) for pair in pairwise(turned)]) + rounding
        for side, measured in cosines(matrices).items():
            assert (np.abs(measured - COSINES[side]) <= bounds).all()


@pytest.mark.parametrize("name", [name for name, (_, shapes, error) in FORMATS.items() if error <= 2**-8])
def test_neighbours_from_two_sources_line_up_on_both_sides(tmp_path, name):
    """A layer as Llama stores it beside the next one in another way: rows and columns are in the same order."""
    write, shapes, _ = FORMATS[name]
    layers = planted(shapes)
    one = read_all(open_checkpoint(safetensors(config={})(tmp_path / "one", layers)))
    other = read_all(open_checkpoint(write(tmp_path / "other", layers)))
    for projection in shapes:
        mixed = [one[projection][0], other[projection][1], one[projection][2]]
        assert_planted(mixed, 0.02)


def test_q_and_k_left_permuted_beside_another_source_break_the_output_side_alone(tmp_path):
    layers = planted()
    checkpoint = open_checkpoint(gguf()(tmp_path, layers))
    for projection in "qk":
        ref = find_roles(checkpoint).matrices[projection][1]
        left = read_matrix(checkpoint, dataclasses.replace(ref, permuted_heads=None))
        mixed = [layers[0][projection], left, layers[2][projection]]
        np.testing.assert_allclose(cosines(mixed)["v"], COSINES["v"], atol=1e-5)
        assert cosines(mixed)["u"].max() < COSINES["u"] - 0.1
        # With both layers permuted nothing is seen: which is why no pair of one file can tell.
        refs = [dataclasses.replace(ref, permuted_heads=None) for ref in find_roles(checkpoint).matrices[projection]]
        assert_planted([read_matrix(checkpoint, ref) for ref in refs], 1e-5)


@pytest.mark.parametrize("projection", ["q", "o"])
def test_a_square_matrix_read_the_other_way_round_gives_u1_for_v1(tmp_path, projection):
    """Nothing but the table can tell: no shape is wrong, and the cosines are those of the other side."""
    checkpoint = open_checkpoint(safetensors(gpt2, GPT2_CONFIG)(tmp_path, planted(UNGATED)))
    refs = find_roles(checkpoint).matrices[projection]
    found = cosines([read_matrix(checkpoint, ref).T for ref in refs])
    np.testing.assert_allclose(found["v"], COSINES["u"], atol=1e-5)
    np.testing.assert_allclose(found["u"], COSINES["v"], atol=1e-5)


def with_gains(layers, offset, names, seed=3):
    """Return layers whose readers are divided by gains, and the gains as they are stored, by name."""
    rng = np.random.default_rng(seed)
    divided, stored = [], {}
    for n, layer in enumerate(layers):
        gain = {kind: np.exp(rng.normal(size=HIDDEN)).astype(np.float32) for kind in names}
        stored |= {name.format(n): gain[kind] - np.float32(offset) for kind, name in names.items()}
        before = {name: gain["mlp" if name in ("gate", "up") else "attention"] for name in layer}
        divided.append({name: m if ROLES[name] == "writes" else m / before[name] for name, m in layer.items()})
    return divided, stored


GAINS = {
    "llama": ("model.layers.{}.input_layernorm.weight", "model.layers.{}.post_attention_layernorm.weight", 0.0),
    "gemma": ("model.layers.{}.input_layernorm.weight", "model.layers.{}.pre_feedforward_layernorm.weight", 1.0),
    "gemma in gguf": ("blk.{}.attn_norm.weight", "blk.{}.ffn_norm.weight", 0.0),
}


@pytest.mark.parametrize("name", GAINS)
def test_continuity_that_only_gains_bring_out_is_found_with_gains_folded(tmp_path, name):
    attention, mlp, offset = GAINS[name]
    layers, gains = with_gains(planted(), offset, {"attention": attention, "mlp": mlp})
    if name == "gemma in gguf":
        path = gguf(lambda layers: plain("blk.{}.", GGUF)(layers) | gains, "gemma3")(tmp_path, layers)
    else:
        path = safetensors(lambda layers: llama(layers) | gains)(tmp_path, layers)
    checkpoint = open_checkpoint(path)
    folded, stored = read_all(checkpoint, fold_norm=True), read_all(checkpoint)
    for projection in SHAPES:
        assert_planted(folded[projection], 1e-5)
        if ROLES[projection] != "writes":
            assert cosines(stored[projection])["v"].max() < COSINES["v"] - 0.1
