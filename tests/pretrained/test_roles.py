"""Which tensor plays which part: every family of architectures, from tensors that say what they are."""

import dataclasses

import numpy as np
import pytest

from geocont_jax.errors import InputError
from geocont_jax.pretrained.architectures import ARCHITECTURES
from geocont_jax.pretrained.projections import PROJECTIONS
from geocont_jax.pretrained.roles import find_roles, read_matrix, unpermuted
from tests.pretrained.memory import MemoryCheckpoint
from tests.pretrained.models import llama_config, llama_tensors

HIDDEN, FFN, LAYERS, HEADS = 16, 24, 2, 4
CONFIG = {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS}
SHAPES = {"gate": (FFN, HIDDEN), "up": (FFN, HIDDEN), "down": (HIDDEN, FFN)}
LLAMA = {name: f"self_attn.{name}_proj.weight" for name in "qkvo"} | {
    name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")
}
GGUF = {"q": "attn_q.weight", "k": "attn_k.weight", "v": "attn_v.weight", "o": "attn_output.weight",
        "gate": "ffn_gate.weight", "up": "ffn_up.weight", "down": "ffn_down.weight"}  # fmt: skip


def matrices(seed=0, names=PROJECTIONS, kv=HIDDEN):
    """Random matrices (d_out, d_in) of each layer by projection: what has to be found."""
    rng = np.random.default_rng(seed)
    shape = {name: SHAPES.get(name, (kv if name in "kv" else HIDDEN, HIDDEN)) for name in names}
    return [{name: rng.normal(size=shape[name]).astype(np.float32) for name in names} for _ in range(LAYERS)]


def permuted(matrix, heads):
    """The converter's order of rows: half-split to interleaved, head by head."""
    d_out, d_in = matrix.shape
    return matrix.reshape(heads, 2, d_out // heads // 2, d_in).swapaxes(1, 2).reshape(d_out, d_in)


def plain(prefix, tensors):
    return lambda layers: {
        f"{prefix.format(n)}{tensors[name]}": layer[name] for n, layer in enumerate(layers) for name in layer
    }


def gpt2(layers):
    found = {}
    for n, layer in enumerate(layers):
        found[f"transformer.h.{n}.attn.c_attn.weight"] = np.concatenate([layer[name] for name in "qkv"]).T
        for name, tensor in {"o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}.items():
            found[f"transformer.h.{n}.{tensor}.weight"] = layer[name].T
    return found


def phi3(layers):
    found = {}
    for n, layer in enumerate(layers):
        prefix = f"model.layers.{n}."
        found[f"{prefix}self_attn.qkv_proj.weight"] = np.concatenate([layer[name] for name in "qkv"])
        found[f"{prefix}self_attn.o_proj.weight"] = layer["o"]
        found[f"{prefix}mlp.gate_up_proj.weight"] = np.concatenate([layer["gate"], layer["up"]])
        found[f"{prefix}mlp.down_proj.weight"] = layer["down"]
    return found


def neox(layers):
    found = {}
    for n, layer in enumerate(layers):
        prefix = f"gpt_neox.layers.{n}."
        by_head = np.stack([layer[name].reshape(HEADS, -1, HIDDEN) for name in "qkv"], axis=1)
        found[f"{prefix}attention.query_key_value.weight"] = by_head.reshape(-1, HIDDEN)
        for name, tensor in {"o": "attention.dense", "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h"}.items():
            found[f"{prefix}{tensor}.weight"] = layer[name]
    return found


def gguf_llama(layers):
    turned = [
        {n: permuted(m, {"q": HEADS, "k": 2}[n]) if n in "qk" else m for n, m in layer.items()} for layer in layers
    ]
    return plain("blk.{}.", GGUF)(turned)


def gguf_fused(halves):
    def write(layers):
        found = {}
        for n, layer in enumerate(layers):
            found[f"blk.{n}.attn_qkv.weight"] = np.concatenate([layer[name] for name in "qkv"])
            found[f"blk.{n}.attn_output.weight"] = layer["o"]
            found[f"blk.{n}.ffn_up.weight"] = np.concatenate([layer["gate"], layer["up"]]) if halves else layer["up"]
            found[f"blk.{n}.ffn_down.weight"] = layer["down"]
        return found

    return write


def gguf_config(arch, kv_heads=HEADS):
    keys = {"block_count": LAYERS, "embedding_length": HIDDEN, "attention.head_count": HEADS,
            "attention.head_count_kv": kv_heads}  # fmt: skip
    return {"general.architecture": arch} | {f"{arch}.{key}": value for key, value in keys.items()}


UNGATED = tuple(name for name in PROJECTIONS if name != "gate")
EXAONE = {"q": "attn.attention.q_proj.weight", "k": "attn.attention.k_proj.weight", "v": "attn.attention.v_proj.weight",
          "o": "attn.attention.out_proj.weight", "gate": "mlp.c_fc_0.weight", "up": "mlp.c_fc_1.weight",
          "down": "mlp.c_proj.weight"}  # fmt: skip
BERT = {"q": "attention.self.query.weight", "k": "attention.self.key.weight", "v": "attention.self.value.weight",
        "o": "attention.output.dense.weight", "up": "intermediate.dense.weight",
        "down": "output.dense.weight"}  # fmt: skip
GROUPED = {**CONFIG, "num_key_value_heads": 2}
GEMMA_NORM = {f"model.layers.{n}.pre_feedforward_layernorm.weight": np.zeros(HIDDEN, np.float32) for n in range(LAYERS)}
POST_NORM = {f"model.layers.{n}.post_feedforward_layernorm.weight": np.ones(HIDDEN, np.float32) for n in range(LAYERS)}

LLAMA_LAYERS = plain("model.layers.{}.", LLAMA)
# Of each entry of the table, by format and name: how layers become tensors, which projections, rows of K and V, config,
# and tensors that tell it from others.
FAMILIES = {
    ("safetensors", "llama"): (LLAMA_LAYERS, PROJECTIONS, 8, {"model_type": "llama", **GROUPED}, {}),
    ("safetensors", "gemma"): (LLAMA_LAYERS, PROJECTIONS, 8, {"model_type": "gemma", **GROUPED}, {}),
    ("safetensors", "gemma 2/3"): (
        plain("language_model.model.layers.{}.", LLAMA), PROJECTIONS, 8, {"text_config": GROUPED},
        {f"language_model.{name}": gain for name, gain in GEMMA_NORM.items()},
    ),
    ("safetensors", "post-norm llama"): (LLAMA_LAYERS, PROJECTIONS, 8, GROUPED, POST_NORM),
    ("safetensors", "phi3"): (phi3, PROJECTIONS, 8, {"model_type": "phi3", **GROUPED}, {}),
    ("safetensors", "exaone 3"): (plain("transformer.h.{}.", EXAONE), PROJECTIONS, 8, {"num_layers": LAYERS}, {}),
    ("safetensors", "gpt2"): (gpt2, UNGATED, HIDDEN, {"n_layer": LAYERS, "n_embd": HIDDEN, "n_head": HEADS}, {}),
    ("safetensors", "gpt-neox"): (neox, UNGATED, HIDDEN, {"model_type": "gpt_neox", **CONFIG}, {}),
    ("safetensors", "bert"): (plain("bert.encoder.layer.{}.", BERT), UNGATED, HIDDEN, CONFIG, {}),
    ("gguf", "llama"): (gguf_llama, PROJECTIONS, 8, gguf_config("llama", 2), {}),
    ("gguf", "llama names"): (plain("blk.{}.", GGUF), PROJECTIONS, 8, gguf_config("qwen3", 2), {}),
    ("gguf", "bert"): (plain("blk.{}.", GGUF), UNGATED, HIDDEN, gguf_config("bert"), {}),
    ("gguf", "phi3"): (gguf_fused(halves=True), PROJECTIONS, 8, gguf_config("phi3", 2), {}),
    ("gguf", "gpt2 and gpt-neox"): (gguf_fused(halves=False), UNGATED, HIDDEN, gguf_config("gpt2"), {}),
}  # fmt: skip


def checkpoint(family, seed=0):
    write, names, kv, config, more = FAMILIES[family]
    layers = matrices(seed, names, kv)
    return MemoryCheckpoint(write(layers) | more, config, family[0]), layers


def test_every_entry_of_the_table_has_a_family_here():
    assert {(entry.format, entry.name) for entry in ARCHITECTURES} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: " ".join(family))
def test_every_matrix_is_cut_out_as_it_was_put_in(family):
    found, layers = checkpoint(family)
    model = find_roles(found)
    assert (model.architecture, model.num_layers, model.hidden_size) == (family[1], LAYERS, HIDDEN)
    assert tuple(model.matrices) == FAMILIES[family][1]
    for name, refs in model.matrices.items():
        for ref, layer in zip(refs, layers, strict=True):
            matrix = read_matrix(found, ref)
            assert ref.shape == matrix.shape
            np.testing.assert_array_equal(matrix, layer[name])


def test_rows_of_interleaved_heads_are_put_back():
    matrix = np.arange(32.0)[:, None] * np.ones(3)
    np.testing.assert_array_equal(unpermuted(permuted(matrix, 4), 4), matrix)
    assert not np.array_equal(permuted(matrix, 4), matrix)


def test_layer_10_comes_after_layer_9():
    layers = [matrices()[0]] * 12
    found = find_roles(MemoryCheckpoint(plain("model.layers.{}.", LLAMA)(layers)))
    assert [ref.layer for ref in found.matrices["q"]] == list(range(12))


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.model.", "model.language_model."])
def test_the_text_tower_is_found_inside_a_wrapper_and_the_rest_is_noted(prefix):
    tensors = plain(f"{prefix}layers.{{}}.", LLAMA)(matrices())
    tensors |= {"vision_tower.encoder.layers.0.self_attn.q_proj.weight": np.ones((4, 4), np.float32)}
    found = find_roles(MemoryCheckpoint(tensors))
    assert len(found.matrices["q"]) == LAYERS
    assert found.notes == ("1 tensors of vision or audio towers are left out",)


def test_attention_of_a_mixture_of_experts_is_read_and_its_experts_are_noted():
    layers = matrices(names=("q", "k", "v", "o"))
    tensors = plain("model.layers.{}.", LLAMA)(layers)
    for n in range(LAYERS):
        tensors[f"model.layers.{n}.block_sparse_moe.gate.weight"] = np.ones((8, HIDDEN), np.float32)
        for expert in range(8):
            tensors[f"model.layers.{n}.block_sparse_moe.experts.{expert}.w1.weight"] = np.ones((4, 4), np.float32)
    found = find_roles(MemoryCheckpoint(tensors))
    assert tuple(found.matrices) == ("q", "k", "v", "o")
    assert found.notes == ("16 tensors of experts are left out: an expert has no neighbour in the next layer",)


def test_a_projection_that_some_layers_lack_and_layers_of_other_shapes_are_noted():
    tensors = plain("model.layers.{}.", LLAMA)(matrices())
    del tensors["model.layers.1.mlp.gate_proj.weight"]
    tensors["model.layers.1.mlp.up_proj.weight"] = np.ones((40, HIDDEN), np.float32)
    found = find_roles(MemoryCheckpoint(tensors))
    assert found.notes == ("gate is in 1 of 2 layers", "layers have up of different shapes; those have no pair")


def test_heads_are_told_by_projection():
    found = find_roles(checkpoint(("safetensors", "llama"))[0])
    assert found.heads == {"q": (4, 4), "k": (2, 4), "v": (2, 4), "o": (4, 4)}
    assert find_roles(checkpoint(("safetensors", "exaone 3"))[0]).heads == {}


def test_gains_fold_into_readers_and_not_into_writers():
    tensors = llama_tensors(2, HIDDEN, FFN)
    found = MemoryCheckpoint(tensors, llama_config(2, HIDDEN, FFN))
    model = find_roles(found)
    for name, norm in {"k": "input_layernorm", "up": "post_attention_layernorm"}.items():
        ref = model.matrices[name][1]
        expected = tensors[ref.tensor] * tensors[f"model.layers.1.{norm}.weight"]
        np.testing.assert_allclose(read_matrix(found, ref, fold_norm=True), expected, rtol=1e-6)
    writer = model.matrices["down"][0]
    np.testing.assert_array_equal(read_matrix(found, writer, fold_norm=True), tensors[writer.tensor])


@pytest.mark.parametrize("family", [("safetensors", "gemma"), ("safetensors", "gemma 2/3")])
def test_gemma_stores_its_gains_less_one(family):
    found, layers = checkpoint(family)
    prefix = "model." if family[1] == "gemma" else "language_model.model."
    found.arrays |= {f"{prefix}layers.{n}.input_layernorm.weight": np.full(HIDDEN, 0.5, np.float32) for n in range(2)}
    folded = read_matrix(found, find_roles(found).matrices["q"][0], fold_norm=True)
    np.testing.assert_allclose(folded, 1.5 * layers[0]["q"], rtol=1e-6)


def test_an_encoders_attention_reads_what_the_last_norm_of_the_layer_before_made():
    found, layers = checkpoint(("safetensors", "bert"))
    found.arrays["bert.embeddings.LayerNorm.weight"] = np.full(HIDDEN, 2.0, np.float32)
    for n in range(LAYERS):
        found.arrays[f"bert.encoder.layer.{n}.output.LayerNorm.weight"] = np.full(HIDDEN, 3.0 + n, np.float32)
    model = find_roles(found)
    for n, gain in enumerate((2.0, 3.0)):
        folded = read_matrix(found, model.matrices["v"][n], fold_norm=True)
        np.testing.assert_allclose(folded, gain * layers[n]["v"], rtol=1e-6)


def test_a_reader_without_a_norm_before_it_cannot_be_folded():
    found, _ = checkpoint(("safetensors", "post-norm llama"))
    with pytest.raises(InputError, match="no norm stands before q; leave --fold-norms out"):
        read_matrix(found, find_roles(found).matrices["q"][0], fold_norm=True)


def test_an_unknown_architecture_lists_what_was_seen_and_the_way_out():
    tensors = {f"stack.{n}.mix.weight": np.ones((4, 4), np.float32) for n in range(3)}
    with pytest.raises(InputError) as error:
        find_roles(MemoryCheckpoint(tensors, {"model_type": "mamba"}))
    assert str(error.value) == (
        "/models/tiny: no known architecture fits (it calls itself mamba); it has stack.N.mix.weight (3); "
        "an entry in geocont_jax/pretrained/architectures.py adds one"
    )


def test_a_gguf_file_of_another_family_is_not_taken_for_its_names():
    found, _ = checkpoint(("gguf", "llama"))
    with pytest.raises(InputError, match="calls itself falcon"):
        find_roles(dataclasses.replace(found, config=gguf_config("falcon")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 5}, "the config says layers 5, the tensors 2"),
        ({"hidden_size": 32}, "the config says hidden size 32, the tensors 16"),
        ({"num_attention_heads": 5}, "the config says 5 heads, but"),
        ({"head_dim": 8}, "the config says 4 heads of 8, but model.layers.0.self_attn.q_proj.weight gives 16"),
    ],
)
def test_config_and_tensors_that_contradict_each_other_are_refused(change, message):
    found, _ = checkpoint(("safetensors", "llama"))
    with pytest.raises(InputError, match=message):
        find_roles(dataclasses.replace(found, config={**found.config, **change}))


def test_a_missing_layer_is_an_error_and_no_gap():
    tensors = plain("model.layers.{}.", LLAMA)([matrices()[0]] * 3)
    tensors = {name: array for name, array in tensors.items() if ".1." not in name}
    with pytest.raises(InputError, match="layer 1 has no tensors; is a file of the checkpoint missing"):
        find_roles(MemoryCheckpoint(tensors))


@pytest.mark.parametrize(
    ("family", "config", "message"),
    [
        (("safetensors", "gpt-neox"), {}, "config.json has to say num_attention_heads"),
        (("gguf", "llama"), {"general.architecture": "llama"}, "its number of heads is not known"),
    ],
)
def test_what_cannot_be_cut_without_the_number_of_heads_says_so(family, config, message):
    found, _ = checkpoint(family)
    with pytest.raises(InputError, match=message):
        find_roles(dataclasses.replace(found, config=config))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("tiny-1b/", "tiny-1b"),
        ("models--org--tiny-1b/snapshots/0123/", "tiny-1b"),
        ("tiny-1b/model.safetensors", "tiny-1b"),
        ("tiny-1b/model.safetensors.index.json", "tiny-1b"),
        ("tiny 1b.Q8_0.gguf", "tiny-1b.Q8_0"),
    ],
)
def test_a_name_is_what_people_call_it_and_always_a_folders(tmp_path, place, name):
    path = tmp_path / place
    if place.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = dataclasses.replace(checkpoint(("safetensors", "llama"))[0], path=path)
    assert find_roles(found).name == name
    assert find_roles(found, "mine/own").name == "mine-own"
