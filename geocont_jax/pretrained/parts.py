"""What is done already: a file for each matrix and each window of layers, so that nothing is computed twice.

    OUT/parts/analysis.json     which checkpoint and which options the parts belong to
    OUT/parts/q-0003.npz        one matrix (`streaming.Measured`)
    OUT/parts/q-bases-0000.npz  the shared basis of the window that begins with layer 0, and what it keeps
    OUT/parts/q-carry.npz       the whole spectrum of the latest of large matrices, for its pair with the next

Each file is written in one move; a process killed at any moment has lost the matrix it was working on.
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from geocont_jax.errors import InputError
from geocont_jax.files import write_whole
from geocont_jax.geometry.quantities import Layers
from geocont_jax.geometry.spectra import Spectrum
from geocont_jax.pretrained.streaming import Measured

FORMAT_VERSION = 1
FIRST = -1  # the layer before the first


class Parts:
    """The parts of one analysis on disk; raises InputError where the folder holds another's."""

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        self._folder = out / "parts"
        self._folder.mkdir(parents=True, exist_ok=True)
        wanted = {"format": FORMAT_VERSION, **identity}
        there = self._folder / "analysis.json"
        if there.exists() and (found := json.loads(there.read_text())) != wanted:
            differ = ", ".join(name for name in wanted if found.get(name) != wanted[name])
            raise InputError(f"{out}: holds an analysis with another {differ}; name another --out, or delete {out}")
        write_whole(there, json.dumps(wanted, indent=1))

    def has_layer(self, projection: str, layer: int, previous: int) -> bool:
        """Return whether a matrix is done, with its pair with the layer `previous` (`FIRST`: no pair)."""
        path = self._layer(projection, layer)
        if not path.exists():
            return False
        with np.load(path) as found:
            return previous in (FIRST, int(found["previous"]))

    def write_layer(self, projection: str, layer: int, previous: int, measured: Measured, **more: np.ndarray) -> None:
        """Keep one matrix's measures, and `more` arrays of it."""
        arrays = {"previous": np.array(previous, np.int32), "s": measured.s, "v": measured.v, "u": measured.u, **more}
        arrays |= {f"layer.{name}": value for name, value in measured.of_layer.items()}
        arrays |= {f"pair.{name}": value for name, value in measured.of_pair.items()}
        _write(self._layer(projection, layer), arrays)

    def read_layer(self, projection: str, layer: int) -> dict[str, np.ndarray]:
        """Return what was kept of a matrix, by the names of `Measured`: `s`, `layer.gap`, `pair.v1_cosine`."""
        return _read(self._layer(projection, layer))

    def has_window(self, projection: str, layers: tuple[int, ...]) -> bool:
        """Return whether the shared basis of these layers is done."""
        path = self._window(projection, layers[0])
        return path.exists() and tuple(_read(path)["layers"].tolist()) == layers

    def write_window(self, projection: str, layers: tuple[int, ...], energies: Mapping[str, Any]) -> None:
        """Keep the energies that bases of the layers of a window keep."""
        _write(self._window(projection, layers[0]), {"layers": np.array(layers, np.int32), **energies})

    def read_window(self, projection: str, layers: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Return what was kept of a window, nothing where its layers share no space."""
        return _read(self._window(projection, layers[0])) if self.has_window(projection, layers) else {}

    def write_carry(self, projection: str, layer: int, spectrum: Spectrum) -> None:
        """Keep the whole spectrum of a projection's latest matrix, in the place of the one before it."""
        arrays = {name: np.asarray(values) for name, values in spectrum._asdict().items()}
        _write(self._carry(projection), {"layer": np.array(layer), **arrays})

    def read_carry(self, projection: str, layer: int, matrix: np.ndarray) -> Layers | None:
        """Return a matrix with its spectrum where it was the latest; None where it was not."""
        path = self._carry(projection)
        found = _read(path) if path.exists() else {"layer": np.array(FIRST)}
        if found.pop("layer") != layer:
            return None
        return Layers(jnp.asarray(matrix)[None], Spectrum(**{name: jnp.asarray(a) for name, a in found.items()}))

    def delete_carries(self) -> None:
        """Delete what only an unfinished analysis needs."""
        for path in self._folder.glob("*-carry.npz"):
            path.unlink()

    def _carry(self, projection: str) -> Path:
        return self._folder / f"{projection}-carry.npz"

    def _layer(self, projection: str, layer: int) -> Path:
        return self._folder / f"{projection}-{layer:04d}.npz"

    def _window(self, projection: str, first: int) -> Path:
        return self._folder / f"{projection}-bases-{first:04d}.npz"


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_whole(path, content.getvalue())


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as found:
        return {name: found[name] for name in found.files}
