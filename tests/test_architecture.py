"""The house rules that a machine can check: imports go one way, importing is silent, modules stay small."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "geocont_jax"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Which rooms a room may use. Everybody may use `PLAIN`; the commands at the top may use everything.
PLAIN = {"errors", "files", "lapack", "progress"}
MAY_USE = {
    "data": set(),
    "models": set(),
    "geometry": set(),
    "optimizers": set(),
    "symmetry": set(),
    "pretrained": {"geometry"},
    "experiment": {"data", "models", "optimizers"},
    "training": {"experiment", "data", "models", "optimizers", "geometry"},
    "analysis": {"geometry"},
    "engine": {"experiment", "data", "models", "geometry", "training", "analysis"},
}
COMMANDS = {"sweep.py", "analyze.py", "results.py", "claims.py", "reference.py", "__init__.py"}


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            parts = name.split(".")
            if parts[0] == "geocont_jax" and len(parts) > 1:
                yield parts[1]


def test_every_room_is_known():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(MAY_USE)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    relative = path.relative_to(PACKAGE)
    if len(relative.parts) == 1:
        assert relative.name in COMMANDS | {"cli.py"} | {f"{name}.py" for name in PLAIN}
        return
    room = relative.parts[0]
    upward = set(imported_rooms(path)) - MAY_USE[room] - {room} - PLAIN
    assert not upward, f"{relative} imports {sorted(upward)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400


def test_importing_the_package_imports_nothing_heavy_and_prints_nothing():
    code = "import sys, geocont_jax; print([m for m in ('jax', 'numpy', 'tensorflow', 'xarray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_no_room_imports_tensorflow():
    code = (
        "import sys, geocont_jax.sweep, geocont_jax.engine.runner, geocont_jax.data.datasets;"
        "print([m for m in ('tensorflow', 'tensorflow_datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
