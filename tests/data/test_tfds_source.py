"""Prepared data sets are read as they are, without TensorFlow or network; where that fails one line says what to do."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from geocont_jax.data import prepare, tfds_source
from geocont_jax.data.datasets import load_images
from geocont_jax.data.tfds_source import newest_version, run_bounded
from geocont_jax.errors import InputError

VERSION = "3.0.1"


def refusal(root, name="mnist"):
    with pytest.raises(InputError) as caught:
        load_images(name, str(root))
    message = str(caught.value)
    assert "\n" not in message
    assert "mnist10k" in message
    return message


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"asked the network for {args}")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def with_tensorflow(monkeypatch):
    """Let TensorFlow seem to be installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


@pytest.fixture
def copied(shared_data, tmp_path):
    """A copy of the prepared data set, to damage."""
    folder = tmp_path / "mnist" / VERSION
    shutil.copytree(shared_data / "tfds" / "mnist" / VERSION, folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    return folder


def digits(images, labels):
    return Counter(zip((image.tobytes() for image in images), labels.tolist(), strict=True))


def test_prepared_mnist_is_mnist_and_is_read_without_tensorflow_or_network(shared_data, full_mnist, no_network):
    data = load_images("mnist", str(shared_data / "tfds"))
    assert data.image_shape == (28, 28, 1)
    assert data.x_train.dtype == np.uint8
    assert (round(data.mean, 4), round(data.std, 4)) == (0.1307, 0.3081)
    for part in ("train", "test"):  # in an order of its own
        read = digits(getattr(data, f"x_{part}"), getattr(data, f"y_{part}"))
        assert read == digits(full_mnist[f"x_{part}"], full_mnist[f"y_{part}"])
    assert "tensorflow" not in sys.modules


def test_reading_is_silent_and_warns_of_nothing(shared_data):
    code = "import sys; from geocont_jax.data.datasets import load_images; load_images('mnist', sys.argv[1])"
    command = [sys.executable, "-W", "error", "-c", code, str(shared_data / "tfds")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_environment_says_where_to_look(shared_data, monkeypatch):
    monkeypatch.setattr(tfds_source, "read_prepared", lambda folder: {"read": folder})
    monkeypatch.setenv("TFDS_DATA_DIR", str(shared_data / "tfds"))
    folder = shared_data / "tfds" / "mnist" / VERSION
    assert tfds_source.read_tfds("mnist", None) == (str(folder), {"read": folder})


def test_versions_are_sorted_as_numbers(tmp_path):
    for version in ("9.0.0", "10.0.0", "2.11.3", "11.0.0.incomplete", "a.b.c", "incomplete.X1_12.0.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "dataset_info.json").touch()
    (tmp_path / "12.0.0").mkdir()  # preparing it was interrupted: no dataset_info.json
    assert newest_version(tmp_path) == tmp_path / "10.0.0"
    assert newest_version(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_without_tensorflow_the_message_says_where_it_looked_and_how_to_go_on(tmp_path, monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = refusal(tmp_path, name)
    assert message.startswith(f"{tmp_path / name}: no prepared {name} there")
    assert "pip install 'geocont_jax[tfds]'" in message


def cut_in_half(folder):
    path = next(folder.glob("*train*"))
    os.truncate(path, path.stat().st_size // 2)


def overwrite(folder):
    with next(folder.glob("*train*")).open("r+b") as file:
        file.seek(1_000_000)
        file.write(bytes(16))


DAMAGE = {
    "cut short": cut_in_half,
    "overwritten": overwrite,
    "empty": lambda folder: os.truncate(next(folder.glob("*train*")), 0),
    "missing": lambda folder: next(folder.glob("*train*")).unlink(),
    "web page": lambda folder: next(folder.glob("*train*")).write_text("<!doctype html><html>"),
    "broken information": lambda folder: (folder / "dataset_info.json").write_text("{"),
    "no features": lambda folder: (folder / "features.json").unlink(),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_data_sets_are_named(case, copied):
    DAMAGE[case](copied)
    assert refusal(copied.parents[1]).startswith(f"{copied}: cannot be read (")


def test_another_file_format_is_named(copied):
    path = copied / "dataset_info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fileFormat": "tfrecord"}))
    message = refusal(copied.parents[1])
    assert message.startswith(f"{copied}: prepared as tfrecord, which needs TensorFlow to read")
    assert "file_format='array_record'" in message


def test_a_package_that_reading_needs_is_named(copied, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    message = refusal(copied.parents[1])
    assert message.startswith(f"{copied}: reading it needs tensorflow_datasets, which is not installed; pip install")


# The child process


def fake_child(monkeypatch, code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    monkeypatch.setattr(tfds_source, "prepare_command", lambda name, root: command)


def test_what_the_child_prepared_is_read(with_tensorflow, monkeypatch, tmp_path, shared_data, caplog):
    code = "import sys, shutil; shutil.copytree(*sys.argv[1:], copy_function=shutil.copyfile)"
    fake_child(monkeypatch, code, str(shared_data / "tfds" / "mnist"), str(tmp_path / "mnist"))
    monkeypatch.setattr(tfds_source, "read_prepared", lambda folder: {"files": sorted(os.listdir(folder))})
    original = shared_data / "tfds" / "mnist" / VERSION
    read = tfds_source.read_tfds("mnist", str(tmp_path))
    assert read == (str(tmp_path / "mnist" / VERSION), {"files": sorted(os.listdir(original))})
    assert caplog.messages == [f"{tmp_path / 'mnist'}: preparing mnist, for 15 minutes at most"]


def test_a_child_that_takes_too_long_is_stopped(with_tensorflow, monkeypatch, tmp_path):
    fake_child(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(tfds_source, "PREPARE_SECONDS", 1.0)
    started = time.monotonic()
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path / 'mnist'}: preparing mnist took more than 1 s and was stopped")
    assert time.monotonic() - started < 20


def test_a_grandchild_that_holds_the_pipe_is_stopped_too(tmp_path):
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_bounded([sys.executable, "-c", code], 3.0)
    assert time.monotonic() - started < 30
    assert is_gone(int((tmp_path / "pid").read_text()))


def is_gone(pid):
    """Wait until nothing, or a zombie that nobody has buried yet, has that process number."""
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if not state.stdout.strip() or state.stdout.startswith("Z"):
            return True
        time.sleep(0.1)
    return False


def test_a_child_that_fails_is_quoted(with_tensorflow, monkeypatch, tmp_path):
    fake_child(monkeypatch, "import sys; sys.exit('progress\\nDownloadError: no route to host')")
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path / 'mnist'}: mnist could not be prepared (DownloadError: no route to host)")


def test_a_child_that_dies_in_silence_is_told_by_its_status(with_tensorflow, monkeypatch, tmp_path):
    fake_child(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    assert "could not be prepared (exit status -9)" in refusal(tmp_path)


def test_a_child_that_prepares_nothing_is_found_out(with_tensorflow, monkeypatch, tmp_path):
    fake_child(monkeypatch, "")
    assert refusal(tmp_path).startswith(f"{tmp_path / 'mnist'}: still nothing prepared there")


def test_the_child_is_the_prepare_module(tmp_path):
    command = tfds_source.prepare_command("mnist", tmp_path)
    assert command == [sys.executable, "-m", "geocont_jax.data.prepare", "mnist", "--data-dir", str(tmp_path)]


@pytest.fixture
def fake_tfds(monkeypatch):
    """Stand in for tensorflow_datasets, noting how its builder is asked for; `error` is raised where set."""
    fake = SimpleNamespace(asked=[], error=None)

    def download_and_prepare():
        if fake.error:
            raise fake.error

    def builder(name, **options):
        fake.asked.append((name, options))
        return SimpleNamespace(download_and_prepare=download_and_prepare)

    monkeypatch.setitem(sys.modules, "tensorflow_datasets", SimpleNamespace(builder=builder))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    return fake


def test_prepare_asks_for_array_record_and_never_for_the_cloud_bucket(fake_tfds):
    assert prepare.main(["mnist", "--data-dir", "here"]) == 0
    assert fake_tfds.asked == [("mnist", {"data_dir": "here", "try_gcs": False, "file_format": "array_record"})]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"


def test_prepare_fails_with_one_line(fake_tfds, capsys):
    fake_tfds.error = OSError("no\n  network")
    assert prepare.main(["mnist", "--data-dir", "here"]) == 1
    assert capsys.readouterr().err == "OSError: no network\n"
