"""The generated blocks of the documents equal what the code gives.

`GEOCONT_UPDATE_DOCS=1 pytest -n 0 tests/test_generated_docs.py` rewrites them.
"""

import os
import re
from pathlib import Path

import pytest

from geocont_jax import reference
from tests.symmetry import argument

DOCS = Path(__file__).parents[1] / "docs"
UPDATE = os.environ.get("GEOCONT_UPDATE_DOCS") == "1"

BLOCKS = reference.BLOCKS | {
    "rotation-errors": argument.errors_table,
    "flat-directions": argument.counts_table,
}
MARKED = re.compile(r"(<!-- (?P<name>[a-z-]+): generated -->\n)(?P<text>.*?)(?=<!-- (?P=name): end -->)", re.DOTALL)
BEGIN = re.compile(r"<!-- ([a-z-]+): generated -->")


DOCUMENTS = [path for path in sorted(DOCS.glob("*.md")) if BEGIN.search(path.read_text())]


def updated(text):
    """Return a document with every block as the code gives it."""
    return MARKED.sub(lambda found: f"{found[1]}\n{BLOCKS[found['name']]()}\n\n", text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_generated_blocks_are_what_the_code_gives(path):
    text = path.read_text()
    expected = updated(text)
    if UPDATE:
        path.write_text(expected)
    elif text != expected:
        pytest.fail(f"docs/{path.name} is out of date; run this test with GEOCONT_UPDATE_DOCS=1")


def test_every_block_has_one_place_with_an_end():
    texts = [path.read_text() for path in DOCUMENTS]
    assert sorted(name for text in texts for name in BEGIN.findall(text)) == sorted(BLOCKS)
    assert sorted(found["name"] for text in texts for found in MARKED.finditer(text)) == sorted(BLOCKS)


def test_a_stale_block_is_made_right_and_nothing_else_is_touched():
    begin, end = "before\n<!-- families: generated -->\n", "<!-- families: end -->\nafter\n"
    fresh = updated(f"{begin}| old |\n{end}")
    assert fresh == f"{begin}\n{reference.families_table()}\n\n{end}"
    assert updated(fresh) == fresh
    with pytest.raises(KeyError):
        updated(fresh.replace("families", "unknown"))


def test_the_reference_command_prints_every_block(capsys):
    assert reference.main([]) == 0
    printed = capsys.readouterr().out
    for block in reference.BLOCKS.values():
        assert block() in printed


def test_a_new_entry_appears_by_itself(monkeypatch):
    quantity = reference.QUANTITIES["gap"]
    monkeypatch.setitem(reference.QUANTITIES, "new_one", quantity)
    assert "| `new_one` | layer | relative spectral gap |" in reference.quantities_table()


@pytest.mark.parametrize("name", BLOCKS)
def test_every_row_of_a_table_has_its_columns(name):
    """A bar in a cell, as in |cos|, is no border."""
    tables = [part.splitlines() for part in BLOCKS[name]().split("\n\n") if part.startswith("|")]
    assert tables
    for rows in tables:
        assert len(rows) > 2
        assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) == 1
