"""Whatever a header or an index says: a checkpoint, or one line; at once, and no file outside the folder is opened."""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import raw_safetensors, write_gguf, write_safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.errors import InputError
from geocont_jax.pretrained.checkpoint import open_checkpoint

TENSORS = {"a.weight": np.ones((4, 32), np.float32), "b": np.zeros(3, np.float32), "c": np.ones((2, 64), np.float32)}
INDEX = "model.safetensors.index.json"
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "U8", "F4", "F8_E4M3", "F99", "f32", "")

fuzzed = settings(max_examples=100, deadline=None)


class Opened:
    """The paths that this process opens while one is watching; an audit hook sees every way of opening a file."""

    def __init__(self):
        self.paths = None
        sys.addaudithook(self._see)

    def _see(self, event, arguments):
        if self.paths is not None and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            self.paths.append(os.path.realpath(os.fsdecode(arguments[0])))

    def during(self, action):
        self.paths = []
        try:
            action()
        finally:
            found, self.paths = self.paths, None
        return found


OPENED = Opened()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder with good checkpoints above and below it, which nothing in the folder may lead to."""
    top = Path(os.path.realpath(tmp_path_factory.mktemp("top")))
    write_safetensors(top, TENSORS)
    write_safetensors(top / "folder" / "sub", TENSORS)
    for package in (top, write_gguf(top / "model.gguf", TENSORS, quantization="Q8_0")):
        open_and_read(package)  # imports open files too: they are done before anyone watches
    return top / "folder"


def open_and_read(path):
    """Open a checkpoint and read some of it, or return the line that it ends with."""
    try:
        found = open_checkpoint(path)
        for name in found.tensors:
            found.read(name, slice(0, 2))
    except InputError as error:
        return str(error)
    return None


def check(folder, name, content, link=None):
    """Put a file, and a link that leads out, into the folder; open the file and the folder."""
    written = [folder / name] if link is None else [folder / name, folder / link]
    written[0].write_bytes(content)
    for path in written[1:]:
        path.symlink_to(folder.parent / "model.safetensors")
    try:
        lines = []
        opened = OPENED.during(lambda: lines.extend(map(open_and_read, (folder / name, folder))))
    finally:
        for path in written:
            path.unlink()
    assert {Path(path).parent for path in opened} <= {folder}
    assert all(line is None or (str(folder) in line and "\n" not in line) for line in lines)


@st.composite
def damaged(draw, content):
    """A file with some bytes changed, a piece cut out or put in, or huge numbers in place of its own."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        piece = draw(
            st.one_of(
                st.binary(max_size=9),
                st.sampled_from([b"\xff" * 8, b"\0" * 8, (2**60).to_bytes(8, "little"), (2**31).to_bytes(8, "little")]),
            )
        )
        removed = draw(st.sampled_from([len(piece), 0, 1, 40, len(content)]))
        content[place : place + removed] = piece
    return bytes(content)


def content_of(write):
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder)).read_bytes()


SAFETENSORS = content_of(lambda folder: write_safetensors(folder, TENSORS) / "model.safetensors")
METADATA = {"llama.block_count": 1, "tokenizer.ggml.tokens": ["a", "bc"], "x": [1, 2, 3], "y": 0.5, "z": True}
GGUF = content_of(lambda folder: write_gguf(folder / "a.gguf", TENSORS, metadata=METADATA, quantization="Q8_0"))


@fuzzed
@given(damaged(SAFETENSORS))
def test_damaged_safetensors(folder, content):
    check(folder, "model.safetensors", content)


@fuzzed
@given(damaged(GGUF))
def test_damaged_gguf(folder, content):
    check(folder, "model.gguf", content)


@fuzzed
@given(st.binary(max_size=64))
def test_arbitrary_bytes_behind_the_magic_of_gguf(folder, content):
    check(folder, "model.gguf", b"GGUF\3\0\0\0" + content)


numbers = st.one_of(st.integers(0, 16), st.sampled_from([-1, 2**31, 2**62, 2**63, 2**64, 10**40, 2.0, None, True, "4"]))
entries = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(DTYPES), st.none(), st.integers()),
        "shape": st.one_of(st.lists(numbers, max_size=5), st.none()),
        "data_offsets": st.one_of(st.lists(numbers, max_size=3), st.text(max_size=3)),
    }
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


@fuzzed
@given(st.dictionaries(st.text(), st.one_of(entries, anything), max_size=3), st.integers(0, 64))
def test_arbitrary_headers(folder, header, size):
    check(folder, "model.safetensors", raw_safetensors(header, bytes(size)))


plain_names = st.sampled_from(["model-1.safetensors", "link.safetensors", "sub", "folder", ".", "..", ""])
paths = st.lists(
    st.sampled_from(["..", ".", "", "sub", "model.safetensors", "folder", "link.safetensors", "\\", "~", "C:"]),
    max_size=4,
).map("/".join)
shards = st.one_of(
    plain_names, paths, st.text(max_size=8), st.just("/etc/hostname"), st.just("%TOP%/model.safetensors")
)


@fuzzed
@given(st.dictionaries(st.one_of(st.sampled_from([*TENSORS]), st.text()), shards, max_size=4))
def test_an_index_of_arbitrary_names(folder, weight_map):
    check(folder, INDEX, json.dumps({"weight_map": weight_map}).encode(), link="link.safetensors")


@fuzzed
@given(anything)
def test_an_arbitrary_index(folder, weight_map):
    check(folder, INDEX, json.dumps({"weight_map": weight_map}).encode())


@fuzzed
@given(damaged(json.dumps({"weight_map": dict.fromkeys(TENSORS, "model.safetensors")}).encode()))
def test_a_damaged_index(folder, content):
    check(folder, INDEX, content, link="model.safetensors")
