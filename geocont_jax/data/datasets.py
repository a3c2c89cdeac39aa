"""Image data sets by name, as flat arrays on the host. A new one is an entry in `LOADERS`."""

import difflib
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from geocont_jax.data.tfds_source import read_tfds
from geocont_jax.errors import InputError

BUNDLED = Path(__file__).with_name("bundled") / "mnist10k.npz"
BUNDLED_SHA256 = "9aadf8dc25bf3692dd7b87213375c03f1018508602f191f6bc358d1688cf44f1"
NPZ = "npz:"
ARRAYS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class ImageData:
    """A classification data set on the host.

    `x_train`, `x_test` (example, feature): uint8 pixels as stored, or float32; `y_train`, `y_test` (example,)
    int32 in 0..num_classes-1. `mean` and `std` are those of all training pixels, uint8 ones divided by 255.
    `image_shape` is (height, width, channel), or (feature,) where examples are stored flat.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    mean: float
    std: float
    image_shape: tuple[int, ...]

    @property
    def num_features(self) -> int:
        """Pixels times channels of an image."""
        return self.x_train.shape[1]


# Given the folder of prepared data sets or None, where it read and what: x_train, y_train, x_test, y_test.
Loader = Callable[[str | None], tuple[str, Mapping[str, np.ndarray]]]


def load_images(name: str, directory: str | None = None) -> ImageData:
    """Return the data set of that name; `directory` is where prepared tensorflow-datasets lie.

    Raises InputError, naming the file and the way out, where the data are missing or not what they should be.

    >>> load_images("mnist10k").x_train.shape
    (9000, 784)
    """
    if check_name(name).startswith(NPZ):
        path = Path(name.removeprefix(NPZ)).expanduser()
        return checked(name, str(path), read_npz(path))
    return checked(name, *LOADERS[name](directory))


def check_name(name: str) -> str:
    """Return the name if it is a data set's; else raise InputError with the closest one."""
    if name in LOADERS or (name.startswith(NPZ) and len(name) > len(NPZ)):
        return name
    close = difflib.get_close_matches(name, LOADERS, n=1)
    known = f"did you mean {close[0]}?" if close else f"known: {', '.join(LOADERS)}, npz:PATH"
    raise InputError(f"'{name}' is not a data set; {known}")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays x_train, y_train, x_test, y_test of an npz file; nothing in it is ever executed."""
    need = f"an npz file with {', '.join(ARRAYS)} is needed"
    if not path.is_file():
        raise InputError(f"{path}: no such file; {need}, or take data.name: mnist10k")
    try:
        # Opened here, because np.load leaves a file that turns out to be no zip archive open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = [name for name in ARRAYS if name not in arrays]
            if missing:
                raise InputError(f"{path}: no array {missing[0]} in it; {need}")
            return {name: arrays[name] for name in ARRAYS}
    except InputError:
        raise
    except Exception as error:  # numpy, zipfile and zlib raise a dozen kinds for damaged files
        raise InputError(f"{path}: {_what_it_is(path, error)}; {need}") from None


def checked(name: str, source: str, arrays: Mapping[str, np.ndarray]) -> ImageData:
    """Return the arrays as a data set, or raise InputError that says what is wrong with which of them."""
    x_train, x_test = (_pixels(source, part, arrays[part]) for part in ("x_train", "x_test"))
    y_train, y_test = (_labels(source, part, arrays[part]) for part in ("y_train", "y_test"))
    for x, y, part in ((x_train, y_train, "train"), (x_test, y_test, "test")):
        if len(x) != len(y):
            raise InputError(f"{source}: x_{part} has {len(x)} examples and y_{part} {len(y)}; they must be as many")
    if x_train.shape[1] != x_test.shape[1] or x_train.dtype != x_test.dtype:
        raise InputError(
            f"{source}: x_train has {x_train.shape[1]} {x_train.dtype} features and x_test {x_test.shape[1]} "
            f"{x_test.dtype} ones; they must be alike"
        )
    mean, std = pixel_moments(x_train)
    if not std > 0:
        raise InputError(f"{source}: all pixels of x_train are the same; is it the right array?")
    num_classes = int(max(y_train.max(), y_test.max())) + 1
    image_shape = arrays["x_train"].shape[1:]
    image_shape += (1,) * (len(image_shape) == 2)
    return ImageData(name, x_train, y_train, x_test, y_test, num_classes, mean, std, image_shape)


def pixel_moments(pixels: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation over all entries (example, feature), uint8 ones divided by 255.

    Exact for uint8 up to the last rounding, and 0 deviation exactly where all entries are the same.
    """
    if pixels.dtype != np.uint8:
        constant = pixels.min() == pixels.max()
        return float(pixels.mean(dtype=np.float64)), 0.0 if constant else float(pixels.std(dtype=np.float64))
    # Block by block: bincount makes int64 of what it is given.
    blocks = (np.bincount(block.reshape(-1), minlength=256) for block in np.array_split(pixels, 64))
    counts, values = sum(blocks, np.zeros(256, np.int64)), np.arange(256)
    # Python integers: the squares of these sums do not fit into int64.
    total, squares = int(counts @ values), int(counts @ values**2)
    return total / (255 * pixels.size), math.sqrt(pixels.size * squares - total**2) / (255 * pixels.size)


def _pixels(source: str, part: str, array: np.ndarray) -> np.ndarray:
    if array.ndim < 2 or array.size == 0:
        raise InputError(f"{source}: {part} has shape {array.shape}; (example, ...) with at least one is needed")
    flat = array.reshape(len(array), -1)
    if flat.dtype == np.uint8:
        return flat
    if not np.issubdtype(flat.dtype, np.floating):
        raise InputError(f"{source}: {part} is of type {array.dtype}; pixels must be uint8 or floating-point")
    with np.errstate(over="ignore"):  # what is too large for float32 is found in the next line
        flat = flat.astype(np.float32)
    if not np.isfinite(flat).all():
        raise InputError(f"{source}: {part} has entries that are not finite in float32; take them out")
    return flat


def _labels(source: str, part: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"{source}: {part} has shape {array.shape}, type {array.dtype}; (example,) integers are needed"
        )
    if array.size and (array.min() < 0 or array.max() >= 100_000):
        raise InputError(f"{source}: {part} has labels from {array.min()} to {array.max()}; count classes from 0")
    return array.astype(np.int32)


def _what_it_is(path: Path, error: Exception) -> str:
    """Say what a file that is no npz seems to be: downloads fail in few ways."""
    try:
        with path.open("rb") as file:
            head = file.read(64).lstrip().lower()
    except OSError as unreadable:
        return f"cannot be opened ({unreadable.strerror})"
    if not head:
        return "the file is empty"
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "this is a web page, not data (a download that went wrong)"
    if head.startswith(b"version https://git-lfs"):
        return "this is a git-lfs pointer, not the data (git lfs pull fetches them)"
    if "allow_pickle" in str(error) and head.startswith(b"pk"):
        return "one of its arrays holds Python objects, which are never loaded"
    if head.startswith(b"pk"):
        return f"the file is damaged or cut short ({' '.join(str(error).split())[:80] or type(error).__name__})"
    return "this is not an npz file"


def _bundled(directory: str | None) -> tuple[str, Mapping[str, np.ndarray]]:
    if not BUNDLED.is_file() or hashlib.sha256(BUNDLED.read_bytes()).hexdigest() != BUNDLED_SHA256:
        raise InputError(f"{BUNDLED}: missing or damaged; install geocont_jax again")
    return str(BUNDLED), read_npz(BUNDLED)


LOADERS: dict[str, Loader] = {"mnist10k": _bundled} | {
    name: partial(read_tfds, name) for name in ("mnist", "fashion_mnist", "cifar10")
}
