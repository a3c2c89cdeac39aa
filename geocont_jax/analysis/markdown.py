"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> str:
    """Return a Markdown table; a bar in a cell is no border. `rule` aligns the columns.

    >>> print(markdown_table(["what", "n"], [["|cos|", "3"]]))
    | what | n |
    | --- | --- |
    | \\|cos\\| | 3 |
    """
    lines = [head, rule or ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
