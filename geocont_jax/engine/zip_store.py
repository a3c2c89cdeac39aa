"""Stores that are one small file: the condensed records of a sweep, and what was measured of a checkpoint.

`NAME.zarr.zip` is a zarr group (format 2) in a zip file: `xarray.open_zarr(zarr.storage.ZipStore(path, mode="r"))`
reads it without this package. The same data give the same bytes.
"""

import io
import zipfile
from pathlib import Path
from typing import Any

import xarray as xr
from zarr.storage import MemoryStore, ZipStore

from geocont_jax.analysis.condensed import CONDENSED_VERSION
from geocont_jax.errors import InputError
from geocont_jax.files import write_whole

SUFFIX = ".zarr.zip"

# The first moment that a zip file can name: when a file was written is no part of what is in it.
EPOCH = (1980, 1, 1, 0, 0, 0)
READABLE = 0o644 << 16


def is_condensed(path: str | Path) -> bool:
    """Return whether a path names a condensed store.

    >>> is_condensed("docs/results/paper_norms.zarr.zip"), is_condensed("results/paper_norms-1a2b3c4d")
    (True, False)
    """
    return Path(path).name.endswith(SUFFIX)


def read_condensed(path: str | Path) -> xr.Dataset:
    """Return what a condensed store holds, in memory; `expand` gives it the usual dimensions.

    Raises InputError where there is none, and where another version wrote it.
    """
    dataset = read_zip(Path(path))
    found = dataset.attrs.get("condensed_version")
    if found != CONDENSED_VERSION:
        raise InputError(
            f"{path}: written in condensed format {found}, this version reads {CONDENSED_VERSION}; "
            "delete it and write it again, or use the version that wrote it"
        )
    return dataset


def read_zip(path: Path) -> xr.Dataset:
    """Return the dataset in a zip file, in memory; raises InputError where there is none, or it is not whole."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; name a {SUFFIX} file that the results command wrote")
    try:
        _check_archive(path)
        with ZipStore(path, mode="r") as store:
            return xr.open_zarr(store).load().drop_encoding()
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: cannot be read ({reason}); delete it and write it again") from error


def _check_archive(path: Path) -> None:
    """Raise BadZipFile for a file that is no zip file, or not whole: zarr stumbles over those."""
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise zipfile.BadZipFile(f"{broken} is damaged")


def write_zip(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as one file, in one move: a reader sees the old file or the new one."""
    files: dict[str, Any] = {}
    dataset.drop_encoding().to_zarr(
        MemoryStore(store_dict=files), mode="w", zarr_format=2, consolidated=True, encoding=_encoding(dataset)
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, READABLE
            archive.writestr(entry, files[name].to_bytes())
    write_whole(path, content.getvalue())


def _encoding(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return a single chunk for every array."""
    return {
        str(name): {"chunks": tuple(max(size, 1) for size in variable.shape)}
        for name, variable in dataset.variables.items()
    }
