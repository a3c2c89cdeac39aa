"""What a path means: folders, files, links and the Hub; whatever is not a checkpoint is one line with the way out."""

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from checkpoint_files import write_gguf, write_index, write_safetensors

from geocont_jax.errors import InputError
from geocont_jax.pretrained.checkpoint import open_checkpoint

TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(4)}


def refused(path):
    """Return the line that opening a path ends with."""
    with pytest.raises(InputError) as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("wrap", [str, Path])
def test_a_folder_and_the_file_in_it_are_the_same(tmp_path, shards, wrap):
    folder = write_safetensors(tmp_path, TENSORS, shards=shards)
    name = "model.safetensors" if shards == 1 else "model.safetensors.index.json"
    whole, single = open_checkpoint(wrap(folder)), open_checkpoint(wrap(folder / name))
    assert (whole.path, single.path) == (folder, folder / name)
    assert (whole.format, whole.tensors) == ("safetensors", single.tensors)


def test_a_path_is_made_absolute(tmp_path, monkeypatch):
    write_safetensors(tmp_path / "model", TENSORS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("model", "./model/", "~/model"):
        assert open_checkpoint(path).path == tmp_path / "model"


def test_the_index_comes_before_files_and_safetensors_before_gguf(tmp_path):
    folder = write_safetensors(tmp_path, TENSORS, shards=2)
    write_safetensors(folder, {"other": np.ones(2)})
    write_gguf(folder / "model.gguf", TENSORS)
    (folder / "pytorch_model.bin").write_bytes(b"\x80")
    assert set(open_checkpoint(folder).tensors) == set(TENSORS)
    for name in ("model.safetensors", *(path.name for path in folder.glob("*-of-*"))):
        (folder / name).unlink()
    (folder / "model.safetensors.index.json").unlink()
    assert open_checkpoint(folder).format == "gguf"


def test_the_usual_index_is_taken_of_several(tmp_path):
    folder = write_safetensors(tmp_path, TENSORS, shards=2)
    index = folder / "model.safetensors.index.json"
    for name in ("one", "two"):
        index.with_name(f"{name}.safetensors.index.json").write_text("{}")
    assert set(open_checkpoint(folder).tensors) == set(TENSORS)
    index.unlink()
    assert "several checkpoints ('one.safetensors.index.json', 'two.saf" in refused(folder)


def test_one_of_several_gguf_files_must_be_named(tmp_path):
    for name in ("q4", "q8"):
        write_gguf(tmp_path / f"{name}.gguf", TENSORS)
    assert "several checkpoints ('q4.gguf', 'q8.gguf'); name one" in refused(tmp_path)
    assert open_checkpoint(tmp_path / "q4.gguf").format == "gguf"


def test_pickles_are_not_opened(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}")
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        assert (line := refused(path)).startswith(str(path))
        assert "save_pretrained" in line


def test_nothing_there_says_what_was_seen(tmp_path):
    assert "only nothing" in refused(tmp_path)
    for name in ("README.md", "model.npz"):
        (tmp_path / name).write_text("x")
    assert "only 'README.md', 'model.npz'" in refused(tmp_path)
    assert "no checkpoint, going by its name" in refused(tmp_path / "README.md")


@pytest.mark.parametrize("path", ["absent", "org/name", "a" * 300, "nul\0", "~nobody-here/model"])
def test_what_is_not_there_is_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no such file or folder" in refused(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are of POSIX systems")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    assert "no such file" in refused(tmp_path / "model.safetensors")
    assert "1 of 1 files are missing" in refused(tmp_path)
    write_index(tmp_path, {"a": "model.safetensors"})
    assert "1 of 1 files are missing" in refused(tmp_path)


def test_a_folder_by_the_name_of_a_file_is_missing(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    assert "1 of 1 files are missing" in refused(tmp_path)


class NotOnTheHub(Exception):
    pass


def fake_hub(cache, listed=None, online=True, breaks=()):
    """Return a stand-in for huggingface_hub that serves the files of `cache`, and the names it was asked for."""
    asked = []

    def model_info(name, timeout):
        assert timeout <= 10
        if not online:
            raise ConnectionError("Name or service\nnot known")
        if name == "org/absent":
            raise NotOnTheHub
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in listed or os.listdir(cache)])

    def hf_hub_download(name, file, local_files_only):
        assert local_files_only is not online
        asked.append(file)
        if file in breaks or not (cache / file).exists():
            raise OSError("broken\noff")
        return str(cache / file)

    hub = ModuleType("huggingface_hub")
    hub.HfApi = lambda: SimpleNamespace(model_info=model_info)
    hub.hf_hub_download = hf_hub_download
    hub.errors = SimpleNamespace(RepositoryNotFoundError=NotOnTheHub)
    return hub, asked


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("shards", [1, 2])
def test_of_a_repository_only_config_and_weights_are_downloaded(tmp_path, monkeypatch, online, shards):
    folder = write_safetensors(tmp_path, TENSORS, shards=shards, config={"hidden_size": 3})
    (folder / "pytorch_model.bin").write_bytes(b"\x80")
    hub, asked = fake_hub(folder, online=online)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    found = open_checkpoint("hf:org/na-me.1")
    assert (found.path, found.config, set(found.tensors)) == (folder, {"hidden_size": 3}, set(TENSORS))
    wanted = {path.name for path in folder.iterdir()} - {"pytorch_model.bin"}
    assert set(asked) - wanted <= ({"model.safetensors.index.json"} if not online else set())
    assert wanted <= set(asked)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hf:org/absent", {}, "not on the Hub, or private"),
        ("hf:org/name", {"online": False}, "is not reached (Name or service not known)"),
        ("hf:org/name", {"listed": ["pytorch_model.bin"]}, "neither model.safetensors nor"),
        ("hf:org/name", {"listed": ["model.safetensors"]}, "model.safetensors could not be downloaded (broken off)"),
        ("hf:name", {}, "must be hf:org/name"),
        ("hf:../../etc/passwd", {}, "must be hf:org/name"),
        ("hf:", {}, "must be hf:org/name"),
    ],
)
def test_what_the_hub_does_not_give_is_one_line(tmp_path, monkeypatch, name, options, words):
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake_hub(tmp_path, **options)[0])
    assert (line := refused(name)).startswith(name)
    assert words in line


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'geocont_jax[hf]'" in refused("hf:org/name")
