import doctest
import json
import re
import zipfile

import numpy as np
import pytest
import xarray as xr
from zarr.storage import ZipStore

from geocont_jax.analysis.condensed import condense, expand, sources_of
from geocont_jax.engine import zip_store
from geocont_jax.engine.condensed import folder_source, merge_sweeps, read_sweep
from geocont_jax.engine.store import STORE_VERSION, load_results
from geocont_jax.engine.zip_store import EPOCH, is_condensed, read_condensed, write_zip
from geocont_jax.errors import InputError
from tests.analysis.full_records import TABLE_1, full_records

SESSION = {
    "command": "/home/me/geocont_jax/sweep.py /home/me/sweeps/tiny.yaml --out /scratch/x --quiet --set seeds=5",
    "processor": "Fast",
    "cores": 8,
    "backend": "gpu",
    "devices": ["H", "H"],
    "versions": {"geocont_jax": "0.1.0", "jax": "0.10.2"},
    "commit": "abc",
    "started": "2026-12-01T23:59:59+00:00",
}


def few(axes=None, **options):
    """Return records of two families: quick to write."""
    return full_records(axes or {}, **{"depth": 3, "families": ("weight", "gradient")} | options)


def write_folder(path, records, sessions=(SESSION,)):
    """Write a results folder as a sweep leaves it behind."""
    path.mkdir(parents=True)
    attrs = {**records.attrs, "store_version": STORE_VERSION}
    records.assign_attrs(attrs).to_zarr(path / "records.zarr", zarr_format=2, consolidated=True)
    if sessions:
        (path / "manifest.json").write_text(json.dumps({"sessions": list(sessions)}))
    return path


def small():
    return condense(few({"activation": ["relu", "gelu"]})).assign_attrs(note="é")


def test_examples():
    assert doctest.testmod(zip_store).failed == 0


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "tiny.zarr.zip"
    write_zip(small(), path)
    assert read_condensed(path).identical(small())
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny.zarr.zip"]


def test_xarray_reads_it_without_this_package(tmp_path):
    write_zip(small(), tmp_path / "tiny.zarr.zip")
    with ZipStore(tmp_path / "tiny.zarr.zip", mode="r") as store:
        assert xr.open_zarr(store).load().identical(small())


def test_the_same_records_give_the_same_bytes_at_any_time(tmp_path):
    write_zip(small(), tmp_path / "a.zarr.zip")
    write_zip(read_condensed(tmp_path / "a.zarr.zip"), tmp_path / "b.zarr.zip")
    with zipfile.ZipFile(tmp_path / "a.zarr.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {EPOCH}
    assert (tmp_path / "a.zarr.zip").read_bytes() == (tmp_path / "b.zarr.zip").read_bytes()


def test_a_whole_study_fits_into_a_repository(tmp_path):
    # Eleven variants, ten seeds, 21 records, seven families: noise in every value, so that nothing compresses well.
    full = full_records(TABLE_1, seeds=range(10), epochs=20)
    write_zip(condense(full), tmp_path / "study.zarr.zip")
    assert (tmp_path / "study.zarr.zip").stat().st_size < 1.2e6


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "tiny.zarr.zip"
    write_zip(small(), path)
    before = path.read_bytes()

    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "writestr", full)
        with pytest.raises(OSError, match="No space"):
            write_zip(small().isel(run=[0]), path)
    assert path.read_bytes() == before


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path):
    path = tmp_path / "tiny.zarr.zip"
    with pytest.raises(InputError, match=re.escape(f"{path}: no such file")):
        read_condensed(path)
    write_zip(small(), path)
    whole = path.read_bytes()
    for content in (b"", b"not a zip file", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=re.escape(f"{path}: cannot be read")) as error:
            read_condensed(path)
        assert "\n" not in str(error.value)
    damaged = bytearray(whole)
    damaged[200] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="cannot be read"):
        read_condensed(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "not a store")
    with pytest.raises(InputError, match="cannot be read"):
        read_condensed(path)


def test_another_version_is_refused_by_name(tmp_path):
    write_zip(small().assign_attrs(condensed_version=99), tmp_path / "tiny.zarr.zip")
    with pytest.raises(InputError, match=r"tiny\.zarr\.zip: written in condensed format 99, this version reads 1"):
        read_condensed(tmp_path / "tiny.zarr.zip")


def test_names():
    assert is_condensed("a/b.zarr.zip")
    assert not is_condensed("a/b.zarr")


def test_a_results_folder_is_condensed_with_where_it_comes_from(tmp_path):
    records = few({"activation": ["relu", "gelu"]})
    found = read_sweep(write_folder(tmp_path / "tiny-0a1b2c3d", records))
    assert found["source"].values.tolist() == [0] * 6
    assert found.attrs["commit"] == "abc"
    assert found.attrs["machine"] == "2 x H (8 cores of Fast)"
    assert json.loads(found.attrs["versions"]) == SESSION["versions"]
    expected = expand(condense(load_results(tmp_path / "tiny-0a1b2c3d")))
    for name in expected.data_vars:
        np.testing.assert_array_equal(expand(found)[name], expected[name])


def test_a_condensed_file_is_read_as_it_is(tmp_path):
    write_zip(small(), tmp_path / "tiny.zarr.zip")
    assert read_sweep(tmp_path / "tiny.zarr.zip").identical(small())


def test_what_differed_between_sessions_is_listed(tmp_path):
    later = {**SESSION, "commit": "def+", "backend": "cpu", "started": "2026-12-03T00:00:00+00:00",
             "versions": {"geocont_jax": "0.1.0", "jax": "0.11.0"}}  # fmt: skip
    folder = write_folder(tmp_path / "tiny", few(), [SESSION, later, SESSION])
    assert folder_source(folder) == {
        "commit": "abc, def+",
        "date": "2026-12-01 to 2026-12-03",
        "machine": "2 x H (8 cores of Fast), 8 cores of Fast",
        "versions": {"geocont_jax": "0.1.0", "jax": "0.10.2, 0.11.0"},
        "command": "python -m geocont_jax.sweep sweeps/tiny.yaml --set seeds=5",
    }


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_without_a_manifest_the_source_is_unknown(content, tmp_path):
    folder = write_folder(tmp_path / "tiny", few(), sessions=())
    if content is not None:
        (folder / "manifest.json").write_text(content)
    assert folder_source(folder) == {}
    assert sources_of(read_sweep(folder)) == [{}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/x/geocont_jax/sweep.py sweeps/a.yaml", "python -m geocont_jax.sweep sweeps/a.yaml"),
        ("/x/sweep.py sweeps/a.yaml --out=/tmp/q --require gpu", "python -m geocont_jax.sweep sweeps/a.yaml"),
        ("/x/sweep.py --quiet mine/a.yaml --smoke", "python -m geocont_jax.sweep mine/a.yaml --smoke"),
        ("/x/sweep.py /y/z/sweeps/a.yaml", "python -m geocont_jax.sweep sweeps/a.yaml"),
        ("/x/notebook.py sweeps/a.yaml", ""),
        ("", ""),
    ],
)
def test_the_command_is_one_that_others_can_give(given, expected, tmp_path):
    folder = write_folder(tmp_path / "tiny", few(), [{**SESSION, "command": given}])
    assert folder_source(folder)["command"] == expected


def test_sweeps_with_other_base_settings_are_not_merged(tmp_path):
    one = read_sweep(write_folder(tmp_path / "tiny-1", few(spec_hash="1")))
    two = read_sweep(write_folder(tmp_path / "tiny-2", few(spec_hash="2")))
    with pytest.raises(InputError, match=r"tiny-2: synthetic with base settings 2, but .*tiny-1 holds settings 1"):
        merge_sweeps(one, tmp_path / "tiny-1", two, tmp_path / "tiny-2")
    assert merge_sweeps(one, tmp_path / "tiny-1", one, tmp_path / "tiny-1").sizes["run"] == 3
