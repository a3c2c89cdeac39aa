"""The table in docs/performance.md, from the results of full benchmarks."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.rows import latest, markdown_table
from geocont_jax.files import write_whole

PLACE = re.compile(r"(<!-- results: begin -->\n).*?(<!-- results: end -->)", re.DOTALL)


def write_document(results: Path, document: Path) -> None:
    """Put the newest row of every number, and where it comes from, between the marks of the document."""
    rows, known = latest(results, "full")
    sources = "\n".join(f"- {line}" for line in dict.fromkeys(map(_source, known)))
    block = f"\n{markdown_table(rows)}\n\nMeasured on:\n\n{sources}\n\n"
    write_whole(document, PLACE.sub(lambda found: found[1] + block + found[2], document.read_text()))


def _source(known: Mapping[str, Any]) -> str:
    """Return machine, versions and commit of a row in a line."""
    versions = ", ".join(f"{name} {number}" for name, number in known["versions"].items() if number)
    computer = f"{known['cores']} cores of {known['processor']}, {known['ram_gib']} GiB"
    commit = known["commit"][:12] + (" with changes" if known["is_dirty"] else "")
    return f"{computer}; Python {known['python']}, {versions}; commit {commit}, {known['date'][:10]}"
