"""Which tensor plays which part: every family of architectures, from tensors that say what they are."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.errors import InputError
from geocont_jax.pretrained.architectures import ARCHITECTURES
from geocont_jax.pretrained.projections import PROJECTIONS
from geocont_jax.pretrained.roles import find_roles, read_matrix, unpermuted
from tests.pretrained.families import (
    BERT,
    EXAONE,
    GGUF,
    LLAMA,
    NUM_HEADS,
    NUM_KV_HEADS,
    gguf_config,
    gguf_fused,
    gguf_llama,
    gpt2,
    llama,
    neox,
    permuted,
    phi3,
    plain,
)
from tests.pretrained.memory import MemoryCheckpoint
from tests.pretrained.models import llama_config, llama_tensors

HIDDEN, FFN, LAYERS = 16, 24, 2
CONFIG = {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": NUM_HEADS}
SHAPES = {"gate": (FFN, HIDDEN), "up": (FFN, HIDDEN), "down": (HIDDEN, FFN)}


def says(arch, kv_heads=NUM_HEADS):
    return gguf_config(arch, LAYERS, HIDDEN, kv_heads)


def matrices(seed=0, names=PROJECTIONS, kv=HIDDEN):
    """Random matrices (d_out, d_in) of each layer by projection: what has to be found."""
    rng = np.random.default_rng(seed)
    shape = {name: SHAPES.get(name, (kv if name in "kv" else HIDDEN, HIDDEN)) for name in names}
    return [{name: rng.normal(size=shape[name]).astype(np.float32) for name in names} for _ in range(LAYERS)]


UNGATED = tuple(name for name in PROJECTIONS if name != "gate")
GROUPED = {**CONFIG, "num_key_value_heads": 2}
GEMMA_NORM = {f"model.layers.{n}.pre_feedforward_layernorm.weight": np.zeros(HIDDEN, np.float32) for n in range(LAYERS)}
POST_NORM = {f"model.layers.{n}.post_feedforward_layernorm.weight": np.ones(HIDDEN, np.float32) for n in range(LAYERS)}
GAMMA = {f"encoder.layer.{n}.output.LayerNorm.gamma": np.full(HIDDEN, 3.0, np.float32) for n in range(LAYERS)}

# Of each entry of the table, by format and name: how layers become tensors, which projections, rows of K and V, config,
# and tensors that tell it from others.
FAMILIES = {
    ("safetensors", "llama"): (llama, PROJECTIONS, 8, {"model_type": "llama", **GROUPED}, {}),
    ("safetensors", "gemma"): (llama, PROJECTIONS, 8, {"model_type": "gemma", **GROUPED}, {}),
    ("safetensors", "gemma 2/3"): (
        plain("language_model.model.layers.{}.", LLAMA), PROJECTIONS, 8, {"text_config": GROUPED},
        {f"language_model.{name}": gain for name, gain in GEMMA_NORM.items()},
    ),
    ("safetensors", "post-norm llama"): (llama, PROJECTIONS, 8, GROUPED, POST_NORM),
    ("safetensors", "phi3"): (phi3, PROJECTIONS, 8, {"model_type": "phi3", **GROUPED}, {}),
    ("safetensors", "exaone 3"): (plain("transformer.h.{}.", EXAONE), PROJECTIONS, 8, {"num_layers": LAYERS}, {}),
    ("safetensors", "gpt2"): (gpt2, UNGATED, HIDDEN, {"n_layer": LAYERS, "n_embd": HIDDEN, "n_head": NUM_HEADS}, {}),
    ("safetensors", "gpt-neox"): (neox, UNGATED, HIDDEN, {"model_type": "gpt_neox", **CONFIG}, {}),
    ("safetensors", "bert"): (plain("bert.encoder.layer.{}.", BERT), UNGATED, HIDDEN, CONFIG, {}),
    ("safetensors", "bert, names of 2018"): (plain("encoder.layer.{}.", BERT), UNGATED, HIDDEN, CONFIG, GAMMA),
    ("gguf", "llama"): (gguf_llama, PROJECTIONS, 8, says("llama", NUM_KV_HEADS), {}),
    ("gguf", "llama names"): (plain("blk.{}.", GGUF), PROJECTIONS, 8, says("qwen3", NUM_KV_HEADS), {}),
    ("gguf", "bert"): (plain("blk.{}.", GGUF), UNGATED, HIDDEN, says("bert"), {}),
    ("gguf", "phi3"): (gguf_fused, PROJECTIONS, 8, says("phi3", NUM_KV_HEADS), {}),
    ("gguf", "gpt2 and gpt-neox"): (gguf_fused, UNGATED, HIDDEN, says("gpt2"), {}),
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
    found = find_roles(MemoryCheckpoint(llama(layers)))
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
    tensors = llama(layers)
    for n in range(LAYERS):
        tensors[f"model.layers.{n}.block_sparse_moe.gate.weight"] = np.ones((8, HIDDEN), np.float32)
        for expert in range(8):
            tensors[f"model.layers.{n}.block_sparse_moe.experts.{expert}.w1.weight"] = np.ones((4, 4), np.float32)
    found = find_roles(MemoryCheckpoint(tensors))
    assert tuple(found.matrices) == ("q", "k", "v", "o")
    assert found.notes == (
        "16 tensors of experts are left out: an expert has no neighbour in the next layer",
        "gate, up, down: no layer has their tensors",
    )


def test_a_projection_that_some_layers_lack_and_layers_of_other_shapes_are_noted():
    tensors = llama(matrices())
    del tensors["model.layers.1.mlp.gate_proj.weight"]
    tensors["model.layers.1.mlp.up_proj.weight"] = np.ones((40, HIDDEN), np.float32)
    found = find_roles(MemoryCheckpoint(tensors))
    assert found.notes == ("gate is in 1 of 2 layers", "layers have up of different shapes; those have no pair")


def test_heads_are_told_by_projection():
    found = find_roles(checkpoint(("safetensors", "llama"))[0])
    assert found.heads == {"q": (4, 4), "k": (2, 4), "v": (2, 4), "o": (4, 4)}
    assert find_roles(checkpoint(("safetensors", "exaone 3"))[0]).heads == {}


@pytest.mark.parametrize("family", [("safetensors", "llama"), ("gguf", "llama"), ("safetensors", "phi3")])
def test_how_many_keys_share_a_head_is_seen_in_the_tensors(family):
    found, layers = checkpoint(family)
    config = {key: value for key, value in found.config.items() if "kv" not in key and "key_value" not in key}
    found = dataclasses.replace(found, config=config)
    model = find_roles(found)
    assert model.heads["k"] == model.heads["v"] == (2, 4)
    np.testing.assert_array_equal(read_matrix(found, model.matrices["k"][1]), layers[1]["k"])


def test_heads_that_are_not_the_same_in_all_layers_are_not_told():
    found, _ = checkpoint(("safetensors", "llama"))
    found.arrays["model.layers.1.self_attn.q_proj.weight"] = np.ones((8, HIDDEN), np.float32)
    found.arrays["model.layers.1.self_attn.o_proj.weight"] = np.ones((HIDDEN, 8), np.float32)
    assert set(find_roles(found).heads) == {"k", "v"}


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


def test_old_names_of_an_encoders_norms_fold_too():
    found, layers = checkpoint(("safetensors", "bert, names of 2018"))
    folded = read_matrix(found, find_roles(found).matrices["q"][1], fold_norm=True)
    np.testing.assert_allclose(folded, 3.0 * layers[1]["q"], rtol=1e-6)


def test_folding_is_what_a_reader_makes_of_a_normed_input():
    """W diag(g) (x / |x|) is W (g * x / |x|), and infinite weights pass without a warning."""
    found, _ = checkpoint(("safetensors", "llama"))
    gain = np.linspace(-1, 2, HIDDEN, dtype=np.float32)
    found.arrays |= {f"model.layers.{n}.input_layernorm.weight": gain for n in range(LAYERS)}
    ref = find_roles(found).matrices["q"][0]
    x = np.random.default_rng(1).normal(size=HIDDEN)
    folded, stored = read_matrix(found, ref, fold_norm=True), read_matrix(found, ref)
    np.testing.assert_allclose(folded @ x, stored @ (gain * x), rtol=1e-5)
    assert (folded.dtype, folded.flags.c_contiguous) == (np.float32, True)
    found.arrays[ref.tensor][0, 0], gain[0] = np.inf, 0.0
    assert np.isnan(read_matrix(found, ref, fold_norm=True)[0, 0])


def test_a_gain_of_another_size_is_refused():
    found, _ = checkpoint(("safetensors", "llama"))
    found.arrays["model.layers.0.input_layernorm.weight"] = np.ones(1, np.float32)
    with pytest.raises(InputError, match=r"input_layernorm.weight has shape \(1,\), but .*q_proj.weight reads 16"):
        find_roles(found)


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


def test_whatever_names_are_in_it_the_refusal_is_one_short_line():
    tensors = {f"{'long' * 50}\n{letter}": np.ones(1) for letter in "abc"}
    with pytest.raises(InputError) as error:
        find_roles(MemoryCheckpoint(tensors, {"model_type": "two\nlines"}))
    assert "(it calls itself two lines)" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_gguf_file_of_another_family_is_not_taken_for_its_names():
    found, _ = checkpoint(("gguf", "llama"))
    with pytest.raises(InputError, match="calls itself falcon"):
        find_roles(dataclasses.replace(found, config=says("falcon")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 5}, "the config says layers 5, the tensors 2"),
        ({"hidden_size": 32}, "the config says hidden size 32, the tensors 16"),
        ({"num_attention_heads": 5}, "the config says 5 heads, but"),
        ({"num_attention_heads": 0}, "the config says 0 heads, but"),
        ({"num_key_value_heads": 4}, "the config says key and value heads 4, the tensors 2"),
        ({"head_dim": 8}, "the config says 4 heads of 8, but model.layers.0.self_attn.q_proj.weight gives 16"),
    ],
)
def test_config_and_tensors_that_contradict_each_other_are_refused(change, message):
    found, _ = checkpoint(("safetensors", "llama"))
    with pytest.raises(InputError, match=message):
        find_roles(dataclasses.replace(found, config={**found.config, **change}))


def test_a_missing_layer_is_an_error_and_no_gap():
    tensors = llama([matrices()[0]] * 3)
    tensors = {name: array for name, array in tensors.items() if ".1." not in name}
    with pytest.raises(InputError, match="layer 1 has no tensors; is a file of the checkpoint missing"):
        find_roles(MemoryCheckpoint(tensors))


def test_a_huge_number_is_no_layer_and_costs_nothing():
    tensors = llama(matrices())
    more = {f"model.layers.{number}.self_attn.q_proj.weight": np.ones((1, 1)) for number in ("9" * 5000, "01", "-1")}
    assert find_roles(MemoryCheckpoint(tensors | more)).num_layers == LAYERS
    tensors["model.layers.9999.self_attn.q_proj.weight"] = np.ones((HIDDEN, HIDDEN))
    with pytest.raises(InputError, match="layer 2 has no tensors"):
        find_roles(MemoryCheckpoint(tensors))


def test_two_models_in_one_checkpoint_are_not_mixed():
    both = [plain(f"{prefix}layers.{{}}.", LLAMA)(matrices(seed)) for seed, prefix in enumerate(["", "model."])]
    with pytest.raises(InputError, match=r"holds several models, \.\.\. and model\.\.\.\."):
        find_roles(MemoryCheckpoint(both[0] | both[1]))
    projector = {"layers.0.weight": np.ones((4, 4)), "layers.7.weight": np.ones((4, 4))}
    assert find_roles(MemoryCheckpoint(both[1] | projector)).num_layers == LAYERS


@pytest.mark.parametrize("shape", [(0, HIDDEN), (HIDDEN,), (2, HIDDEN, HIDDEN)])
def test_what_is_no_matrix_is_refused(shape):
    found, _ = checkpoint(("safetensors", "llama"))
    found.arrays["model.layers.1.mlp.up_proj.weight"] = np.ones(shape)
    with pytest.raises(InputError, match=r"up_proj.weight has shape .*, where a matrix is needed"):
        find_roles(found)


@pytest.mark.parametrize("name", ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"])
def test_a_tensor_that_is_stored_the_other_way_round_is_refused_where_it_can_be_seen(name):
    found, _ = checkpoint(("safetensors", "gpt2"))
    tensor = f"transformer.h.1.{name}.weight"
    found.arrays[tensor] = found.arrays[tensor].T
    if name == "attn.c_proj":  # square: only the table can say
        found.arrays[tensor] = np.ones((HIDDEN, 8), np.float32)
    with pytest.raises(InputError, match=r"the other way round|fused rows do not hold"):
        find_roles(found)


@pytest.mark.parametrize(
    ("family", "tensor", "shape", "message"),
    [
        (("safetensors", "phi3"), "model.layers.0.mlp.gate_up_proj.weight", (47, HIDDEN), "are no two halves"),
        (("safetensors", "phi3"), "model.layers.0.self_attn.qkv_proj.weight", (33, HIDDEN), "do not hold Q"),
        (("safetensors", "phi3"), "model.layers.0.self_attn.qkv_proj.weight", (16, HIDDEN), "do not hold Q"),
        (("safetensors", "gpt-neox"), "gpt_neox.layers.0.attention.query_key_value.weight", (50, HIDDEN), "of 4 heads"),
        (("gguf", "llama"), "blk.1.attn_k.weight", (6, HIDDEN), "cannot be put in order: 6 rows, heads of 4"),
    ],
)
def test_fused_rows_that_do_not_come_out_even_are_refused(family, tensor, shape, message):
    found, _ = checkpoint(family)
    assert tensor in found.arrays
    found.arrays[tensor] = np.ones(shape, np.float32)
    with pytest.raises(InputError, match=message):
        find_roles(found)


def test_fused_rows_cannot_be_split_without_the_output_matrix():
    found, _ = checkpoint(("safetensors", "phi3"))
    del found.arrays["model.layers.1.self_attn.o_proj.weight"]
    with pytest.raises(InputError, match=r"1.self_attn.o_proj.weight is missing, without which the fused"):
        find_roles(found)


@pytest.mark.parametrize("sign", ["per_layer_input_gate.weight", "layer_scalar"])
def test_later_gemmas_which_store_whole_gains_are_not_taken_for_earlier_ones(sign):
    found, _ = checkpoint(("safetensors", "gemma 2/3"))
    found.arrays[f"language_model.model.layers.0.{sign}"] = np.ones((2, HIDDEN))
    with pytest.raises(InputError, match="no known architecture"):
        find_roles(found)


def test_a_layer_with_half_of_its_names_known_says_what_is_not_there():
    """Phi-2 has the names of Llama for q, k and v only."""
    tensors = llama(matrices(names=("q", "k", "v")))
    assert find_roles(MemoryCheckpoint(tensors)).notes == ("o, gate, up, down: no layer has their tensors",)


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


SHAPES_OF_ANYTHING = st.one_of(
    st.tuples(st.integers(0, 50), st.sampled_from([8, HIDDEN])), st.tuples(st.integers(0, 3))
)
VALUES = st.one_of(st.integers(-2, 20), st.sampled_from([None, True, 2.5, "4", [4], {}]))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FAMILIES)), st.data())
def test_whatever_shapes_and_config_say_every_ref_can_be_read_or_the_checkpoint_is_refused(family, data):
    found, _ = checkpoint(family)
    keys = data.draw(
        st.lists(st.sampled_from([*found.config, "text_config", "head_dim", "llama.attention.key_length"]))
    )
    changed = {key: data.draw(VALUES) for key in keys if key != "general.architecture"}
    names = data.draw(st.lists(st.sampled_from(sorted(found.arrays)), max_size=2))
    arrays = found.arrays | {name: np.ones(data.draw(SHAPES_OF_ANYTHING), np.float32) for name in names}
    found = dataclasses.replace(found, arrays=arrays, config=found.config | changed)
    try:
        model = find_roles(found)
    except InputError:
        return
    for refs in model.matrices.values():
        for ref in refs:
            assert read_matrix(found, ref).shape == ref.shape
    for name, (number, size) in model.heads.items():
        assert {ref.shape[1 if name == "o" else 0] for ref in model.matrices[name]} == {number * size}


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
