"""What was measured of a checkpoint on disk: a folder, a small file, the document, the scoreboard."""

import csv

import pytest
import xarray as xr

from geocont_jax import claims, results
from geocont_jax.engine.pretrained_store import PRETRAINED_SUFFIX, read_pretrained, write_pretrained
from geocont_jax.errors import InputError
from tests.analysis.checkpoints import checkpoint


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "results" / "toy"
    folder.mkdir(parents=True)
    write_pretrained(checkpoint("toy", num_layers=4), folder)
    return folder


def test_xarray_reads_the_store_alone(folder):
    found = xr.open_zarr(folder / "continuity.zarr").load()
    assert found["weight_v1_cosine"].dims == ("projection", "pair")
    assert found.sel(projection="q")["weight_v1_cosine"].values.tolist() == [0.8] * 3
    xr.testing.assert_identical(read_pretrained(folder).drop_attrs(), found.drop_encoding().drop_attrs())


def test_csv_and_figures_lie_beside_it(folder):
    with (folder / "continuity.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), rows[0]["projection"], rows[0]["v1_cosine"]) == (7 * 3, "q", "0.8")
    assert {path.stem for path in (folder / "figures").iterdir()} == {"depth", "layers", "path", "bases"}


def test_writing_again_takes_the_place_of_the_old(folder):
    write_pretrained(checkpoint("toy", num_layers=3), folder)
    assert read_pretrained(folder).sizes["layer"] == 3


def test_results_and_claims_find_it(folder, tmp_path, capsys):
    out = tmp_path / "docs"
    assert results.main([str(folder.parent), "--out", str(out)]) == 0
    assert "## toy" in (out / "pretrained.md").read_text()
    assert not (out / "results.md").exists()
    small = out / "results" / f"toy{PRETRAINED_SUFFIX}"
    xr.testing.assert_equal(read_pretrained(small), read_pretrained(folder))
    again = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert results.main([str(out / "results"), "--out", str(out)]) == 0
    assert {path: path.read_bytes() for path in again} == again
    capsys.readouterr()
    assert claims.main([str(out / "results")]) == 0
    board = capsys.readouterr().out
    assert "| gate v1 excess: pretrained models |" in board
    assert "one seed has no interval" in board


def test_another_version_and_a_broken_store_are_refused_by_name(folder):
    write_pretrained(checkpoint().assign_attrs(store_version=0), folder)
    with pytest.raises(InputError, match=r"toy: written in store format 0"):
        read_pretrained(folder)
    (folder / "continuity.zarr" / ".zmetadata").write_text("{")
    with pytest.raises(InputError, match=r"continuity\.zarr: cannot be read"):
        read_pretrained(folder)
