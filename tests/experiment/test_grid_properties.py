"""Whatever is in a grid file, the reader reads it or says what is wrong; what it writes, it reads."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from geocont_jax.errors import InputError
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid, smoke, to_yaml

QUICKSTART = (Path(__file__).parents[2] / "sweeps" / "quickstart.yaml").read_text()
SNIPPETS = [
    "name: x\n",
    "model:",
    "sweep: ",
    "model.width",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a",
    "!!int ",
    "'",
]
SNIPPETS += [
    '"',
    "\n",
    "  ",
    "\t",
    "#",
    "|\n",
    ">-\n",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "<<",
    "~",
    "1e-3",
    "010",
]

tmp_path_is_shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def refusal(source: Any, overrides: tuple[str, ...] = ()) -> str:
    try:
        load_grid(source, overrides)
    except InputError as error:
        return str(error)
    return "none"


def reads_or_refuses(path: Path, content: bytes, overrides: tuple[str, ...] = ()) -> None:
    path.write_bytes(content)
    message = refusal(path, overrides)
    assert len(message.splitlines()) == 1
    assert message.encode()


@tmp_path_is_shared
@given(content=st.binary() | st.text().map(str.encode))
@example(content=b"\xef\xbb\xbf")
@example(content=b"%TAG ! tag:x\n---\n!a b")
def test_random_files(tmp_path: Path, content: bytes) -> None:
    reads_or_refuses(tmp_path / "grid.yaml", content)


@tmp_path_is_shared
@given(pieces=st.lists(st.sampled_from(SNIPPETS) | st.text(max_size=3), max_size=20))
def test_random_yaml(tmp_path: Path, pieces: list[str]) -> None:
    reads_or_refuses(tmp_path / "grid.yaml", "".join(pieces).encode())


@tmp_path_is_shared
@given(
    start=st.integers(0, len(QUICKSTART)),
    length=st.integers(0, 30),
    new=st.sampled_from(SNIPPETS) | st.text(),
)
def test_a_damaged_quickstart(tmp_path: Path, start: int, length: int, new: str) -> None:
    reads_or_refuses(tmp_path / "grid.yaml", (QUICKSTART[:start] + new + QUICKSTART[start + length :]).encode())


@tmp_path_is_shared
@given(
    key=st.sampled_from(["model.width", "sweep.model.width", "seeds", "name", "x"]) | st.text(),
    value=st.text(),
)
def test_random_overrides(tmp_path: Path, key: str, value: str) -> None:
    reads_or_refuses(tmp_path / "grid.yaml", b"name: x", (f"{key}={value}",))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
TOP_KEYS = ["name", "description", "model", "data", "training", "measure", "sweep", "zip", "exclude", "seeds"]


@settings(deadline=None)
@given(content=st.dictionaries(st.sampled_from(TOP_KEYS), TREES) | st.dictionaries(st.text(), TREES))
def test_random_dicts(content: dict[str, Any]) -> None:
    assert len(refusal({"name": "x"} | content).splitlines()) == 1


def distinct(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=1, max_size=4, unique=True)


# Two float32 apart, so that no two values are one to the program.
RATES = st.integers(1, 10_000).map(lambda i: i / 1024)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    sweep = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "model.residual": distinct(st.booleans() | st.sampled_from([0.25, 0.5])),
                "model.activation": distinct(st.sampled_from(["relu", "identity", "radial"])),
                "training.learning_rate": distinct(RATES),
                "measure.every": distinct(st.just("epoch") | st.integers(1, 9)),
            },
        )
    )
    size = draw(st.integers(1, 4))
    zipped = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "model.width": st.lists(st.integers(2, 99), min_size=size, max_size=size, unique=True),
                "training.steps": st.lists(st.integers(1, 99), min_size=size, max_size=size, unique=True),
            },
        )
    )
    return {
        "name": draw(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", fullmatch=True)),
        "description": draw(TEXT),
        "data": {"dir": draw(TEXT), "name": draw(st.sampled_from(["mnist", "npz:a b: c #.npz"]))},
        "model": {"init_std": draw(RATES), "residual": draw(st.booleans() | st.floats(0.01, 0.99))},
        "sweep": sweep,
        "zip": zipped,
        "exclude": [{name: values[0]} for name, values in sweep.items() if len(values) > 1][:1],
        "seeds": draw(st.integers(1, 9) | distinct(st.integers(0, 2**32 - 1))),
    }


@tmp_path_is_shared
@given(content=grids())
def test_what_is_written_is_read_back_equal(tmp_path: Path, content: dict[str, Any]) -> None:
    grid = load_grid(content)
    path = tmp_path / "spec.yaml"
    path.write_text(to_yaml(grid), encoding="utf-8", newline="")
    again = load_grid(path)
    assert again == grid
    assert to_yaml(again) == to_yaml(grid)
    assert list(again.sweep) == list(grid.sweep)
    assert [run.identity for run in expand(again)] == [run.identity for run in expand(grid)]


@settings(deadline=None)
@given(content=grids())
def test_every_grid_has_a_tiny_version(content: dict[str, Any]) -> None:
    tiny = smoke(load_grid(content))
    assert all((run.settings.training.steps or 99) <= 4 for run in expand(tiny))
    assert load_grid(tiny) == tiny


@pytest.mark.parametrize(
    "text",
    [
        "",
        "on",
        "null",
        "~",
        "1e-3",
        "a: b",
        "# a",
        "'",
        '"',
        " a ",
        "a\nb\n",
        "\t",
        ":0",
        "\x85",
        "\u2028",
        "a" * 500 + " b",
        "é\U0001f600",
    ],
)
def test_texts_that_yaml_could_misread_survive(tmp_path: Path, text: str) -> None:
    grid = load_grid({"name": "on", "description": text})
    (tmp_path / "spec.yaml").write_text(to_yaml(grid), encoding="utf-8", newline="")
    assert load_grid(tmp_path / "spec.yaml") == grid
