"""Data sets prepared by tensorflow-datasets, read without TensorFlow and without the network.

Only preparing one (downloading and converting) needs TensorFlow; that runs in a process of its own, for a bounded
time (`geocont_jax/data/prepare.py`).
"""

import contextlib
import importlib.util
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from geocont_jax.errors import InputError

DEFAULT_DIRECTORY = "~/tensorflow_datasets"
PREPARE_SECONDS = 900.0
WAY_ON = "or take data.name: mnist10k, which is bundled"


def read_tfds(name: str, directory: str | None) -> tuple[str, dict[str, np.ndarray]]:
    """Return the folder of a prepared data set and its x_train, y_train, x_test, y_test.

    Looks in `directory`, else in $TFDS_DATA_DIR, else in ~/tensorflow_datasets, for the newest version, and
    prepares one first where there is none and TensorFlow is installed.
    Raises InputError with the folder that was looked in.
    """
    root = Path(directory or os.environ.get("TFDS_DATA_DIR") or DEFAULT_DIRECTORY).expanduser()
    prepared = newest_version(root / name)
    if prepared is None:
        prepare(name, root)
        prepared = newest_version(root / name)
    if prepared is None:
        raise InputError(f"{root / name}: still nothing prepared there; look at what it holds, {WAY_ON}")
    try:
        return str(prepared), read_prepared(prepared)
    except InputError:
        raise
    except ImportError as error:
        raise InputError(
            f"{prepared}: reading it needs {error.name}, which is not installed; "
            f"pip install tensorflow-datasets array_record importlib_resources pillow, {WAY_ON}"
        ) from None
    except Exception as error:  # array_record and tfds raise many kinds for damaged files
        raise InputError(f"{prepared}: cannot be read ({_short(error)}); prepare it again, {WAY_ON}") from None


def newest_version(folder: Path) -> Path | None:
    """Return the folder of the newest prepared version, 10.0.0 after 9.0.0, or None."""

    def number(path: Path) -> tuple[int, ...]:
        parts = path.name.split(".")
        return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()

    prepared = [info.parent for info in folder.glob("*.*.*/dataset_info.json") if number(info.parent)]
    return max(prepared, key=number, default=None)


def prepare(name: str, root: Path) -> None:
    """Download and prepare a data set in a process of its own.

    Raises InputError where TensorFlow is not installed, where it fails, and after `PREPARE_SECONDS`.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise InputError(
            f"{root / name}: no prepared {name} there (data.dir or TFDS_DATA_DIR says where to look), and preparing "
            f"it needs TensorFlow: pip install 'geocont_jax[tfds]', {WAY_ON}"
        )
    logging.getLogger(__name__).warning(
        "%s: preparing %s, for %.0f minutes at most", root / name, name, PREPARE_SECONDS / 60
    )
    command = prepare_command(name, root)
    try:
        status, complaint = run_bounded(command, PREPARE_SECONDS)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{root / name}: preparing {name} took more than {PREPARE_SECONDS:.0f} s and was stopped; is the network "
            f"there? Prepare it elsewhere and set data.dir, {WAY_ON}"
        ) from None
    if status != 0:
        last = (complaint.strip().splitlines() or [f"exit status {status}"])[-1][:160]
        raise InputError(f"{root / name}: {name} could not be prepared ({last}); set data.dir, {WAY_ON}")


def prepare_command(name: str, root: Path) -> list[str]:
    """Return the command line that prepares a data set."""
    return [sys.executable, "-m", "geocont_jax.data.prepare", name, "--data-dir", str(root)]


def run_bounded(command: list[str], seconds: float) -> tuple[int, str]:
    """Return exit status and standard error of a command, which is killed with all its children after a time.

    Raises subprocess.TimeoutExpired then.
    """
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, complaint = child.communicate(timeout=seconds)
        return child.returncode, complaint
    except BaseException:
        # The session, not only the child: a grandchild that holds the pipe would make the wait endless.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise


def read_prepared(folder: Path) -> dict[str, np.ndarray]:
    """Return x_train, y_train, x_test, y_test of a folder that tensorflow-datasets prepared as array_record."""
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(folder)
    if builder.info.file_format.value != "array_record":
        raise InputError(
            f"{folder}: prepared as {builder.info.file_format.value}, which needs TensorFlow to read; "
            f"prepare it with file_format='array_record', {WAY_ON}"
        )
    shape = builder.info.features["image"].shape
    # Decoding here takes two thirds of the time of tfds' own decoding, which also advises to install OpenCV.
    as_stored = {"image": tfds.decode.SkipDecoding()}
    arrays: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        source = builder.as_data_source(split, decoders=as_stored)
        examples = source.__getitems__(range(len(source)))
        arrays[f"x_{split}"] = decode_images((example["image"] for example in examples), shape)
        arrays[f"y_{split}"] = np.array([example["label"] for example in examples])
    return arrays


def decode_images(files: Iterable[bytes], shape: tuple[int, ...]) -> np.ndarray:
    """Return PNG or JPEG files, all of one shape (height, width, channel), as (example, *shape) uint8."""
    from PIL import Image

    pixels = b"".join(Image.open(io.BytesIO(file), formats=("PNG", "JPEG")).tobytes() for file in files)
    return np.frombuffer(pixels, np.uint8).reshape(-1, *shape)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
