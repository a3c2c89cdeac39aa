"""The path that the leading direction takes through the layers, for the eye."""

from typing import NamedTuple

import numpy as np


class Trajectory(NamedTuple):
    """Points (layer, component) of a path, NaN where a layer has no direction, and the share of its variance.

    `share` (component,) says how much of the path's variance each component shows: what the eye does not see is the
    rest.
    """

    points: np.ndarray
    share: np.ndarray


def align_signs(directions: np.ndarray) -> np.ndarray:
    """Return the directions with signs such that none points away from the one before it.

    `v^l <- sign(v^l . v^{l-1}) v^l`, one after another: singular vectors have no sign of their own. Layers without a
    direction (NaN) are passed over. Shapes: `directions` (layer, d). Source: arXiv 2605.04971, Eq. 6.

    >>> align_signs(np.array([[1.0, 0.0], [-0.6, 0.8], [0.0, 1.0]])).tolist()
    [[1.0, 0.0], [0.6, -0.8], [-0.0, -1.0]]
    """
    aligned = np.array(directions, dtype=float)
    before: np.ndarray | None = None
    for layer, direction in enumerate(aligned):
        if np.isnan(direction).any():
            continue
        if before is not None and before @ direction < 0:
            aligned[layer] = -direction
        before = aligned[layer]
    return aligned


def trajectory(directions: np.ndarray, num_components: int = 2) -> Trajectory:
    """Return the path of sign-aligned directions in its own principal components.

    The components are the leading right singular vectors of the centred directions. A smooth curve means that each
    layer's direction lies near its neighbours'; random directions give a cloud around the origin. Shapes:
    `directions` (layer, d), unit or NaN. Source: arXiv 2605.04971, Fig. 1.

    >>> angles = np.linspace(0.0, 1.0, 9)
    >>> path = trajectory(np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1))
    >>> path.points.shape, round(float(path.share.sum()), 6)
    ((9, 2), 1.0)
    """
    points = np.full((len(directions), num_components), np.nan)
    defined = ~np.isnan(directions).any(axis=1)
    if defined.sum() < 2:
        return Trajectory(points, np.full(num_components, np.nan))
    aligned = align_signs(directions[defined])
    centred = aligned - aligned.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    shown = min(num_components, len(s))
    points[np.flatnonzero(defined)[:, None], np.arange(shown)] = u[:, :shown] * s[:shown]
    share = np.zeros(num_components)
    total = float(np.sum(s**2))
    share[:shown] = s[:shown] ** 2 / total if total > 0 else 0.0
    return Trajectory(points, share)
