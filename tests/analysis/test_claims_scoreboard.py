"""The scoreboard as text, and the command that writes it."""

import doctest
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from geocont_jax import claims as command
from geocont_jax import run_sweep
from geocont_jax.analysis.claims import render
from geocont_jax.analysis.claims.measures import END, Measure
from geocont_jax.analysis.claims.model import Claim, Part, Sweep, Variant, single
from geocont_jax.analysis.claims.paper1 import PAPER_1
from geocont_jax.analysis.claims.render import scoreboard
from geocont_jax.analysis.claims.rules import SHOWN, PaperValue, above
from geocont_jax.analysis.claims.sample import gather
from geocont_jax.engine.condensed import read_sweep
from geocont_jax.engine.store import STORE_VERSION
from geocont_jax.engine.zip_store import write_zip
from tests.analysis.claim_records import METRICS, constant, paper_world, store

TOY = Sweep("toy", {"depth": 16})
RELU = Variant("Res+relu", {"activation": "relu"})
WEIGHT_END = Measure("weight_v1_cosine", END)
ABOUT = {"geocont_jax": "0.1.0", "commit": "0123abcd", "date": "2026-05-01", "machine": "2 cores of X"}


def claim(id, *parts):
    return Claim(id, "Weights line up.", "a paper, Fig. 1", "a reader", TOY, parts)


YES = claim("yes", Part(single(WEIGHT_END, RELU), above(0.4), "Half is much."))
NO = claim("no", Part(single(WEIGHT_END, RELU), above(0.9), "More is more."),
           Part(single(Measure("update_ratio", END), RELU), SHOWN, "To see."))  # fmt: skip
VALUE = claim("value", Part(single(WEIGHT_END, RELU), PaperValue(0.52, 2, 0.05), "It was printed."))
PREMISE = claim("premise", Part(single(WEIGHT_END, RELU), above(0.9), "First this.", premise=True),
                Part(single(WEIGHT_END, RELU), above(0.4), "Then that."))  # fmt: skip
CLAIMS = (YES, NO, VALUE, PREMISE)


def toy(**options):
    curves = {"weight_v1_cosine": lambda seed: constant((0.48, 0.5, 0.52)[seed % 3])}
    return store("toy", lambda _, seed: {name: curve(seed) for name, curve in curves.items()}, claims=CLAIMS,
                 **{"noise": 0.0, "seeds": range(3), "attrs": ABOUT, **options})  # fmt: skip


def row(text, id):
    return next(line for line in text.splitlines() if line.startswith(f"| [{id}]"))


def section(text, id):
    return re.search(rf"\n## {id}\n(.*?)(?=\n## )", text, re.DOTALL)[1]


def test_examples():
    assert doctest.testmod(render).failed == 0


def test_the_first_table_has_a_line_with_numbers_for_every_claim():
    text = scoreboard([toy()], CLAIMS)
    assert "4 claims: 2 supported, 1 refuted, 1 undecided." in text
    # sd 0.02, n = 3: half-width 0.0497, and 0.0703 of the prediction.
    assert row(text, "yes") == (
        "| [yes](#yes) | supported | weight v1 at the end: Res+relu is 0.500 [0.450, 0.550], asked: > 0.4; n = 3 |"
    )
    assert "| refuted | weight v1 at the end: Res+relu is 0.500 [0.450, 0.550], asked: > 0.9; n = 3 |" in row(
        text, "no"
    )
    assert "premise not met: weight v1 at the end" in row(text, "premise")
    assert len(re.findall(r"^\| \[", text, re.MULTILINE)) == len(CLAIMS)


def test_a_published_value_stands_beside_ours_with_the_difference():
    text = scoreboard([toy()], [claim("value", Part(single(WEIGHT_END, RELU), PaperValue(0.52, 2, 0.05), "Printed."))])
    assert "0.500 [0.430, 0.570] (prediction)" in row(text, "value")
    assert "ours minus the paper's: -0.020" in row(text, "value")
    assert "supported" in row(text, "value")


def test_a_section_says_all_that_a_verdict_rests_on():
    found = section(scoreboard([toy()], CLAIMS), "no")
    for line in (
        "Weights line up.",
        "- Source: a paper, Fig. 1",
        "- How it is known: a reader",
        "- Sweep: toy, `python -m geocont_jax.sweep sweeps/toy.yaml`",
        "| weight v1 at the end: Res+relu | > 0.9 | 0.500 | [0.450, 0.550] | 3 | 0.050 | refuted |",
        r"| \|W-W0\|/\|W0\| at the end: Res+relu | - | 0.050 | [0.050, 0.050] | 3 | - | shown |",
        "- `> 0.9`: More is more.",
    ):
        assert line in found.splitlines()
    assert "To see." not in found  # what decides nothing needs no reason


def test_every_table_is_a_table():
    for text in (scoreboard([toy()], CLAIMS), scoreboard([])):
        for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(cells) == 1, block
        assert "nan" not in text
        assert "None" not in text
        assert "-0.000" not in text


def test_every_claim_has_a_section_that_its_line_leads_to():
    text = scoreboard([])
    links = re.findall(r"^\| \[([^\]]+)\]\(#([^)]+)\)", text, re.MULTILINE)
    assert links == [(one.id, one.id) for one in PAPER_1]
    for one in PAPER_1:
        assert re.fullmatch(r"[a-z0-9-]+", one.id)
        assert f"\n## {one.id}\n" in text


def test_the_same_records_give_the_same_text_in_any_order():
    names = ["paper_table1", "paper_drift"]
    records = [store(name, paper_world) for name in names]
    text = scoreboard(records)
    assert scoreboard(records[::-1]) == text
    shuffled = [one.isel(run=np.random.default_rng(0).permutation(one.sizes["run"])) for one in records]
    assert scoreboard(shuffled) == text
    assert scoreboard([one.assign_attrs(folder="elsewhere") for one in records]) == text


def test_runs_that_do_not_count_are_named_in_the_line_and_in_the_table():
    records = toy(seeds=range(6), status=["ok", "ok", "diverged", "ok", "pending", "pending"])
    text = scoreboard([records], CLAIMS)
    assert "n = 3; 1 run diverged; 2 runs pending |" in row(text, "yes")
    assert "| 3 of 6 (1 run diverged, 2 runs pending) |" in section(text, "yes")
    assert "1 diverged, 3 ok, 2 pending" in text
    assert "diverged" not in row(scoreboard([toy()], CLAIMS), "yes")


def test_nothing_but_diverged_runs():
    text = scoreboard([toy(status=["diverged"] * 3)], CLAIMS)
    assert "undecided" in row(text, "yes")
    assert "is unknown, asked: > 0.4 (no finished run has a value); n = 0; 3 runs diverged" in row(text, "yes")


def test_a_problem_is_said_once_in_the_line_and_beside_every_part():
    records = toy().drop_vars("update_ratio")
    text = scoreboard([records], [claim("x", *NO.parts), claim("y", Part(NO.parts[1].statistic, above(0.1), "So."))])
    assert "the records of toy have no update_ratio" in row(text, "y")
    assert "| 0 | - | undecided (the records of toy have no update_ratio" in section(text, "y")
    assert "refuted" in row(text, "x")


def test_where_the_numbers_come_from():
    text = scoreboard([toy()], CLAIMS)
    assert "| toy | 0a1b2c3d | 3 ok | 0 to 2 | 4 | 0.1.0 | 0123abcd | 2026-05-01 | 2 cores of X |" in text
    bare = scoreboard([toy(attrs={}, seeds=(7,))], CLAIMS)
    assert "| toy | 0a1b2c3d | 1 ok | 7 | 4 | - | - | - | - |" in bare
    assert scoreboard([], CLAIMS).endswith("No sweep that a claim asks for was among the results.")
    other = scoreboard([toy().assign_attrs(name="quickstart")], CLAIMS)
    assert "quickstart" not in other


# --- The command ---------------------------------------------------------------------------------------------------

MANIFEST = """{"sessions": [
 {"started": "2026-05-01T10:00:00+00:00", "commit": "0123abcd", "backend": "cpu", "cores": 2, "processor": "X",
  "devices": ["cpu", "cpu"], "command": "sweep.py sweeps/paper_drift.yaml", "versions": {"jax": "0.10"}}
]}"""


def write(records, folder):
    records.assign_attrs(store_version=STORE_VERSION).to_zarr(folder / "records.zarr", zarr_format=2, consolidated=True)
    (folder / "manifest.json").write_text(MANIFEST)
    return folder


@pytest.fixture(scope="module")
def drift():
    return store("paper_drift", paper_world, attrs={"geocont_jax": "0.1.0"})


@pytest.fixture
def results(drift, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results" / "paper_drift-0a1b2c3d"
    folder.mkdir(parents=True)
    (tmp_path / "results" / "notes.txt").write_text("not a store")
    (tmp_path / "results" / "figures").mkdir()
    return write(drift, folder)


def run(capsys, *arguments):
    status = command.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_default_is_the_folder_results(results, capsys):
    status, out, err = run(capsys)
    assert (status, err) == (0, "")
    assert "relu-no-drift](#relu-no-drift) | supported |" in out
    assert "| paper_drift | 0a1b2c3d | 15 ok | 0 to 4 | 4 | 0.1.0 | 0123abcd | 2026-05-01 | 2 cores of X |" in out
    assert "paper_table1 is missing" in out


def test_every_way_to_name_a_store_gives_the_same(results, capsys):
    text = run(capsys)[1]
    for places in (["results"], [results], [results / "records.zarr"], ["results", results, "results/"]):
        assert run(capsys, *places) == (0, text, "")


def test_a_condensed_store_gives_the_same(results, tmp_path, capsys):
    text = run(capsys)[1]
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "paper_drift.zarr.zip"
    write_zip(read_sweep(results), path)
    assert run(capsys, path) == (0, text, "")
    assert run(capsys, tmp_path / "docs") == (0, text, "")


def test_a_refuted_claim_is_no_failure_of_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    write(store("paper_drift", lambda *_: {"weight_v1_cosine": constant(0.05)}), tmp_path / "results")
    status, out, _ = run(capsys)
    assert status == 0
    assert "relu-no-drift](#relu-no-drift) | refuted |" in out


def test_out_writes_the_file_in_one_move(results, tmp_path, capsys, monkeypatch):
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "claims.md"
    assert run(capsys, "--out", "docs/claims.md") == (0, "", "")
    before = path.read_text()
    assert before == run(capsys)[1]
    assert os.listdir(path.parent) == ["claims.md"]

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        status, out, err = run(capsys, "--out", "docs/claims.md")
    assert (status, out) == (1, "")
    assert err == "error: [Errno 28] No space left on device\n"
    assert path.read_text() == before
    assert run(capsys, "--out", "docs/claims.md")[0] == 0
    assert os.listdir(path.parent) == ["claims.md"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such folder; run a sweep first, or say where results are"),
        (["results", "nowhere"], "nowhere: no such folder"),
        (["results/notes.txt"], "results/notes.txt: no results in it; give folders that sweeps printed"),
        (["results/figures"], "results/figures: no results in it"),
        (["--out", "none/claims.md"], "--out none/claims.md: there is no folder none; make it"),
    ],
    ids=str,
)
def test_wrong_input_is_one_line_and_status_2(arguments, message, results, capsys):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_two_results_of_one_sweep_are_refused(results, drift, tmp_path, capsys):
    other = tmp_path / "results" / "paper_drift-ffffffff"
    other.mkdir()
    write(drift, other)
    status, out, err = run(capsys)
    assert (status, out) == (2, "")
    assert "results/paper_drift-0a1b2c3d and results/paper_drift-ffffffff are both results of paper_drift" in err
    assert run(capsys, other)[0] == 0


def test_a_store_of_another_version_is_refused(drift, tmp_path, capsys):
    drift.assign_attrs(store_version=-1).to_zarr(tmp_path / "records.zarr", zarr_format=2)
    status, _, err = run(capsys, tmp_path)
    assert status == 2
    assert "store format -1" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--ou", "x"], ["--out"]])
def test_wrong_usage_is_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2


def test_help_needs_nothing_heavy():
    code = (
        "import sys, geocont_jax.claims as c\n"
        "try: c.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('jax', 'numpy', 'xarray', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "python -m geocont_jax.claims" in done.stdout


@pytest.mark.slow
def test_the_records_of_a_real_sweep_are_understood(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = {
        "name": "paper_drift",
        "model": {"depth": 3, "width": 8, "init_scale": 0.3},
        "data": {"batch_size": 32},
        "training": {"steps": 2},
        "measure": {"every": 2, "reference": 2, "families": "all"},
        "sweep": {"model.activation": ["identity", "radial", "relu"]},
        "seeds": 1,
    }
    run_sweep(grid, tmp_path / "results")
    capsys.readouterr()
    status, out, _ = run(capsys)
    assert status == 0
    # Another study under the name of the paper's: it is no evidence, and the first difference is named.
    assert 'no run of paper_drift has name "mnist"; there: "mnist10k"' in row(out, "relu-no-drift")
    (records,) = command.load_stores(["results"])
    sweep = Sweep("paper_drift", {"init_scale": 0.3, "depth": 3})
    for net in ("identity", "radial", "relu"):
        for metric in METRICS:
            found = gather(single(Measure(metric, END), Variant(net, {"activation": net})), sweep, records)
            assert (len(found.values), found.problem) == (0 if metric == "weight_v_overlap16" else 1, ""), metric
