"""The table of architectures, held against the table that the gguf package keeps of the same names."""

import gguf
import pytest

from geocont_jax.pretrained.architectures import ARCHITECTURES, BLOCKS, LAYERS
from geocont_jax.pretrained.projections import PROJECTIONS, ROLES

IDS = [f"{entry.format} {entry.name}" for entry in ARCHITECTURES]
each_entry = pytest.mark.parametrize("entry", ARCHITECTURES, ids=IDS)

# What the package calls the tensor of a projection, whole and fused.
WHOLE = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
         "down": "ffn_down"}  # fmt: skip
FUSED = {"qkv": "attn_qkv", "qkv_by_head": "attn_qkv", "halves": "ffn_up"}
# One of the package's architectures for each entry that reads Hugging Face's names, and the prefix of its layer 7.
HUGGING_FACE = {
    "llama": ("llama", "model.layers.7."),
    "gemma": ("gemma", "model.layers.7."),
    "gemma 2/3": ("gemma3", "model.layers.7."),
    "post-norm llama": ("exaone4", "model.layers.7."),
    "phi3": ("phi3", "model.layers.7."),
    "exaone 3": ("exaone", "transformer.h.7."),
    "gpt2": ("gpt2", "transformer.h.7."),
    "gpt-neox": ("gptneox", "gpt_neox.layers.7."),
    "bert": ("bert", "encoder.layer.7."),
}
ARCHITECTURE_NUMBERS = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}


def package_names(architecture):
    """Return the package's names of an architecture's tensors, of layer 7."""
    return {gguf.TENSOR_NAMES[t].format(bid=7) for t in gguf.MODEL_TENSORS[ARCHITECTURE_NUMBERS[architecture]]}


def test_names_are_there_once_and_in_words():
    assert len(set(IDS)) == len(IDS)
    assert all(entry.models for entry in ARCHITECTURES)


@each_entry
def test_an_entry_is_whole(entry):
    assert tuple(name for name in PROJECTIONS if name in entry.projections) == tuple(entry.projections)
    assert {"q", "k", "v", "o", "up", "down"} <= set(entry.projections)
    assert entry.projections["q"].tensor in entry.needs  # what `find_roles` takes the hidden size from
    assert all(ROLES[name] != "writes" for name in entry.norms)
    if any(where.split.startswith("qkv") for where in entry.projections.values()):
        assert [(where.split, where.part) for where in (entry.projections[name] for name in "qkv")] == [
            (entry.projections["q"].split, part) for part in range(3)
        ]


def test_only_conv1d_is_stored_the_other_way_round():
    turned = {e.name for e in ARCHITECTURES for where in e.projections.values() if where.orientation == "in_out"}
    assert turned == {"gpt2"}


def test_only_the_llama_family_of_gguf_is_permuted():
    permuted = [entry for entry in ARCHITECTURES if entry.is_permuted]
    assert [(entry.format, entry.model_types) for entry in permuted] == [("gguf", ("llama", "mistral3", "smollm3"))]


@pytest.mark.parametrize("entry", [e for e in ARCHITECTURES if e.format == "gguf"], ids=lambda entry: entry.name)
def test_gguf_names_are_those_of_the_package(entry):
    assert entry.model_types
    for model_type in entry.model_types:
        known = package_names(model_type)
        experts = "blk.7.ffn_gate_exps" in known
        for name, where in entry.projections.items():
            stem = FUSED.get(where.split, WHOLE[name])
            assert where.tensor == f"{stem}.weight"
            assert f"blk.7.{stem}" in known or (experts and name in ("gate", "up", "down"))
        for norm in entry.norms.values():
            # A model with norms behind its blocks has none before them; its readers have nothing to fold.
            behind = {"blk.7.post_attention_norm", "blk.7.post_ffw_norm"} <= known
            assert f"blk.7.{norm.tensor.removesuffix('.weight')}" in known or behind
            assert norm.offset == 0.0
            assert norm.embedding in ("", "token_embd_norm.weight")


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face_names_play_the_part_that_the_package_gives_them(name):
    (entry,) = (e for e in ARCHITECTURES if (e.format, e.name) == ("safetensors", name))
    architecture, prefix = HUGGING_FACE[name]
    table = gguf.get_tensor_name_map(ARCHITECTURE_NUMBERS[architecture], 8)
    match = entry.layer.match(prefix + "x")
    assert (match["number"], match[0]) == ("7", prefix)
    for projection, where in entry.projections.items():
        stem = FUSED.get(where.split, WHOLE[projection])
        assert table.get_name(prefix + where.tensor, try_suffixes=(".weight",)) == f"blk.7.{stem}.weight"
    for projection, norm in entry.norms.items():
        attention = projection in ("q", "k", "v")
        if norm.after_layer or name == "bert":
            expected = "layer_output_norm" if attention else "attn_output_norm"
        else:
            expected = "attn_norm" if attention else "ffn_norm"
        assert table.get_name(prefix + norm.tensor, try_suffixes=(".weight",)) == f"blk.7.{expected}.weight"


def test_every_entry_for_safetensors_is_held_against_the_package():
    entries = {entry.name for entry in ARCHITECTURES if entry.format == "safetensors"}
    assert entries - {"bert, names of 2018"} == set(HUGGING_FACE)


@pytest.mark.parametrize("prefix", ["", "model.", "language_model.", "model.language_model.", "language_model.model."])
@pytest.mark.parametrize("number", ["0", "9", "10", "125"])
def test_a_layer_has_its_models_prefix_and_its_number(prefix, number):
    match = LAYERS.match(f"{prefix}layers.{number}.mlp.up_proj.weight")
    assert (match["model"], match["number"]) == (prefix, number)


@pytest.mark.parametrize("name", ["layers.01.x", "layers.10000.x", "layers.x", "vision_model.layers.0.x",
                                  "model.vision_tower.layers.0.x", "xlayers.0.x", "layersx0.x"])  # fmt: skip
def test_what_is_no_layer_of_the_text_tower(name):
    assert LAYERS.match(name) is None
    assert BLOCKS.match("v.blk.0.attn_q.weight") is None
