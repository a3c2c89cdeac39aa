"""The command: what it writes, that it adds to what is there, and what it says when it cannot."""

import json
import re
import subprocess
import sys

import pandas as pd
import pytest

from geocont_jax import results
from geocont_jax.analysis.condensed import expand
from geocont_jax.analysis.figures import v1_figure
from geocont_jax.analysis.summary import summarise
from geocont_jax.engine.store import STORE_VERSION, load_results
from geocont_jax.engine.zip_store import read_condensed
from tests.analysis.full_records import full_records

AXES = {"activation": ["relu", "gelu"]}
FEW = ("weight", "gradient", "cumulative_gradient")


def write_folder(path, commit="abc", **options):
    """Write a results folder as a sweep leaves it behind."""
    options = {"axes": AXES, "seeds": (0, 1), "depth": 4, "epochs": 2, "name": "tiny", "families": FEW} | options
    records = full_records(options.pop("axes"), **options)
    path.mkdir(parents=True)
    records.attrs["store_version"] = STORE_VERSION
    records.to_zarr(path / "records.zarr", zarr_format=2, consolidated=True)
    session = {"commit": commit, "started": "2026-12-01T01:02:03+00:00", "backend": "cpu", "cores": 2,
               "processor": "P", "versions": {"jax": "0.10.2"}, "command": "/x/sweep.py sweeps/tiny.yaml"}  # fmt: skip
    (path / "manifest.json").write_text(json.dumps({"sessions": [session]}))
    return str(path)


@pytest.fixture
def quick(monkeypatch):
    """Draw no figures."""
    monkeypatch.setattr("geocont_jax.engine.publish.draw_figures", lambda dataset: {})


def run(capsys, *arguments):
    status = results.main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_it_writes_document_figures_summary_and_store_and_says_so(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "results/tiny-0a1b2c3d"), tmp_path / "docs"
    status, said, err = run(capsys, folder, "--out", out)
    assert status == 0
    assert "error" not in err
    written = files_in(out)
    assert set(written) == {"results.md", "results/tiny.csv", "results/tiny.zarr.zip"} | {
        f"figures/tiny-{name}.png" for name in ("v1", "transfer", "drift", "movement", "layers", "distance")
    }
    assert said.splitlines() == [f"wrote {out}/{name}" for name in sorted(written, key=said.index)]
    text = written["results.md"].decode()
    for link in re.findall(r"\]\(((?:figures|results)/.*?)\)", text):
        assert link in written
    assert "2026-12-01; 2 cores of P; commit `abc`; jax 0.10.2" in text
    assert "run again: `python -m geocont_jax.sweep sweeps/tiny.yaml`" in text
    table = pd.read_csv(out / "results/tiny.csv")
    expected = summarise(load_results(folder))
    for name in ("weight_v1_cosine_mean", "coherence_gap_ci95_low", "weight_v1_cosine_z"):
        # The store keeps run means in float32; z is a difference over a small error.
        assert table[name].tolist() == pytest.approx([row[name] for row in expected], rel=1e-5)


def test_twice_gives_the_same_bytes_also_from_the_stores_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("geocont_jax.engine.publish.draw_figures", lambda dataset: {"v1": v1_figure(dataset)})
    folder, out = write_folder(tmp_path / "results/tiny-0a1b2c3d"), tmp_path / "docs"
    run(capsys, folder, "--out", out)
    first = files_in(out)
    run(capsys, folder, "--out", out)
    assert files_in(out) == first
    monkeypatch.chdir(tmp_path / "docs")  # there is no folder `results` with sweeps in it here
    run(capsys, "--out", out)
    assert files_in(out) == first
    run(capsys, out / "results/tiny.zarr.zip", "--out", tmp_path / "other")
    assert files_in(tmp_path / "other") == first


def test_a_later_session_adds_to_the_study(tmp_path, capsys, quick):
    out = tmp_path / "docs"
    run(capsys, write_folder(tmp_path / "a/tiny-0a1b2c3d", commit="one"), "--out", out)
    status, _, _ = run(capsys, write_folder(tmp_path / "b/tiny-0a1b2c3d", "two", seeds=(2,)), "--out", out)
    assert status == 0
    merged = read_condensed(out / "results/tiny.zarr.zip")
    assert sorted(zip(merged["variant"].values.tolist(), merged["seed"].values.tolist(), strict=True)) == [
        (f"activation={name}", seed) for name in ("gelu", "relu") for seed in (0, 1, 2)
    ]
    text = (out / "results.md").read_text()
    assert "runs: 6 ok" in text
    assert "4 runs; 2026-12-01; 2 cores of P; commit `one`" in text
    assert "2 runs; 2026-12-01; 2 cores of P; commit `two`" in text
    together = summarise(full_records(AXES, (0, 1, 2), depth=4, epochs=2, families=FEW))
    for row, expected in zip(summarise(expand(merged)), together, strict=True):
        assert row["weight_v1_cosine_mean"] == pytest.approx(expected["weight_v1_cosine_mean"], rel=1e-6)
        assert row["n_ok"] == 3


def test_other_sweeps_stay_in_the_document(tmp_path, capsys, quick):
    out = tmp_path / "docs"
    run(capsys, write_folder(tmp_path / "a/tiny-0a1b2c3d"), "--out", out)
    run(capsys, write_folder(tmp_path / "a/paper_drift-11111111", name="paper_drift"), "--out", out)
    assert re.findall(r"^## (\w+)$", (out / "results.md").read_text(), re.MULTILINE)[-2:] == ["paper_drift", "tiny"]


def test_a_folder_of_several_without_its_smoke_runs(tmp_path, capsys, quick):
    write_folder(tmp_path / "results/tiny-0a1b2c3d")
    write_folder(tmp_path / "results/other-0a1b2c3d", name="other")
    smoke = write_folder(tmp_path / "results/tiny-smoke-0a1b2c3d", name="tiny-smoke")
    (tmp_path / "results/notes").mkdir()
    run(capsys, tmp_path / "results", "--out", tmp_path / "docs")
    assert sorted(path.name for path in (tmp_path / "docs/results").glob("*.csv")) == ["other.csv", "tiny.csv"]
    run(capsys, smoke, "--out", tmp_path / "trial")
    assert [path.name for path in (tmp_path / "trial/results").glob("*.csv")] == ["tiny-smoke.csv"]


def test_without_arguments_it_reads_the_folder_results(tmp_path, capsys, monkeypatch, quick):
    write_folder(tmp_path / "results/tiny-0a1b2c3d")
    monkeypatch.chdir(tmp_path)
    assert run(capsys)[0] == 0
    assert (tmp_path / "docs/results.md").is_file()


def test_unfinished_and_diverged_runs_are_told(tmp_path, capsys, quick):
    status = ["ok", "diverged", "pending", "ok"]
    folder = write_folder(tmp_path / "tiny", status=status, diverged_at=[-1, 5, -1, -1])
    run(capsys, folder, "--out", tmp_path / "docs")
    text = (tmp_path / "docs/results.md").read_text()
    assert "runs: 2 ok, 1 diverged, 1 pending" in text
    assert "| relu | 1 of 2 |" in text
    kept = read_condensed(tmp_path / "docs/results/tiny.zarr.zip")
    assert kept["status"].values.tolist() == status
    # Later the run that was not finished is, and one that was finished is not: it stays as it was.
    later = write_folder(tmp_path / "later", status=["pending", "diverged", "ok", "ok"], diverged_at=[-1, 5, -1, -1])
    run(capsys, later, "--out", tmp_path / "docs")
    assert "runs: 3 ok, 1 diverged, 0 pending" in (tmp_path / "docs/results.md").read_text()


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """Return a folder with results that cannot be published."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "empty").mkdir()
    (folder / "broken.zarr.zip").write_text("no zip file")
    write_folder(folder / "trials/tiny-smoke-1")
    for spec_hash in "12":
        write_folder(folder / f"a/tiny-{spec_hash}", spec_hash=spec_hash)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing: no such folder; run a sweep first"),
        (["missing.zarr.zip"], "missing.zarr.zip: no such file"),
        (["empty"], "empty: no results in it; give folders"),
        (["trials"], "trials: no results in it but smoke runs"),
        (["broken.zarr.zip"], "broken.zarr.zip: cannot be read"),
        (["a/tiny-1", "a/tiny-2"], "tiny-2: tiny with base settings 2, but"),
        (["a"], "tiny-2: tiny with base settings 2, but"),
    ],
    ids=str,
)
def test_wrong_input_is_one_line_and_status_2(arguments, message, wrong, tmp_path, capsys):
    status, out, err = run(capsys, *(wrong / name for name in arguments), "--out", tmp_path / "docs")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err
    assert not (tmp_path / "docs").exists()


def test_nothing_to_publish_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys)
    assert status == 2
    assert "docs: no results to publish" in err


def test_a_full_disk_is_one_line_and_status_1(tmp_path, capsys, monkeypatch):
    folder = write_folder(tmp_path / "tiny")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geocont_jax.engine.publish.write_summary", full)
    status, _, err = run(capsys, folder, "--out", tmp_path / "docs")
    assert status == 1
    assert "No space left on device" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--ou", "x"], ["a", "--out"]])
def test_wrong_usage_is_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        results.main(arguments)
    assert stop.value.code == 2


def test_nothing_heavy_is_imported_before_the_arguments_are_read():
    code = (
        "import sys; from geocont_jax import results; results.parser().parse_args(['a']);"
        "print([name for name in ('jax', 'numpy', 'xarray', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
