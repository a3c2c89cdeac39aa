"""Continuity of attention heads: which head of one layer goes on in which head of the next.

Only the side of the residual stream is compared. Inside a head directions have no common basis: V and O allow any
rotation between them, Q and K do without rotary embeddings, and with them still one in each frequency's plane. Nor do
heads have an order: two layers' heads of the same index have nothing to do with each other unless training made it so,
which is why the best assignment is reported beside it, and what that is by chance.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from scipy.optimize import linear_sum_assignment

from geocont_jax.geometry.spectra import decompose

NUM_SIMULATIONS = 1000
SEED = 0


class HeadMatch(NamedTuple):
    """Mean |cos| of two layers' heads: by index, by the best assignment, and what the latter is by chance."""

    same_index: float
    best: float
    best_chance: float


class AssignmentChance(NamedTuple):
    """Mean and standard deviation, for one pair of layers, of the best assignment's mean |cos| by chance.

    `error` is the standard error of the mean, which is simulated.
    """

    mean: float
    sd: float
    error: float


@jax.jit
def head_directions(heads: Array) -> Array:
    """Return the leading direction of each head in the space of the residual stream, NaN where it has none.

    The v1 of `heads` (head, head_dim, d), head_dim >= 2; result (head, d). For O, whose heads are blocks of columns,
    give the transposed blocks.
    """
    return decompose(heads, "gram").v1


def head_cosines(previous: np.ndarray, current: np.ndarray) -> np.ndarray:
    """Return |cos| between every head of a layer and every head of the next: (head, other_head).

    Shapes: `previous` and `current` (head, d), unit directions or NaN.

    >>> head_cosines(np.eye(2), -np.eye(2)[::-1]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return np.minimum(np.abs(previous @ current.T), 1.0)


def match_heads(cosines: np.ndarray, dimension: int) -> HeadMatch:
    """Return how well heads match by index and by the assignment with the largest sum of |cos|.

    Heads without a direction are left out; a mean over no head is NaN, as is `same_index` where the layers differ in
    their number of heads. Shapes: `cosines` (head, other_head), NaN in the rows and columns of heads without a
    direction; `dimension` is that of the directions.

    >>> match = match_heads(np.array([[0.1, 0.9], [0.7, 0.1]]), dimension=64)
    >>> match.same_index, match.best, round(match.best_chance, 2)
    (0.1, 0.8, 0.13)
    """
    defined = ~np.isnan(cosines)
    sound = cosines[np.ix_(defined.any(axis=1), defined.any(axis=0))]
    rows, columns = linear_sum_assignment(sound, maximize=True)
    matched = np.diagonal(cosines) if cosines.shape[0] == cosines.shape[1] else np.empty(0)
    return HeadMatch(
        _mean(matched[~np.isnan(matched)]),
        _mean(sound[rows, columns]),
        assignment_chance(min(sound.shape), max(sound.shape), dimension).mean,
    )


@lru_cache(maxsize=64)
def assignment_chance(num_heads: int, num_others: int, dimension: int) -> AssignmentChance:
    """Return what the best assignment of unrelated heads is: directions uniform on the sphere, independent.

    Simulated by `NUM_SIMULATIONS` draws with the seed `SEED`. It lies above the `chance_level` of a single pair, for
    the assignment is chosen among many. NaN without heads.

    >>> chance = assignment_chance(9, 9, 576)  # a single pair: 0.033
    >>> round(chance.mean, 3), round(chance.error, 4)
    (0.069, 0.0002)
    """
    if num_heads == 0:
        return AssignmentChance(np.nan, np.nan, np.nan)
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(NUM_SIMULATIONS):
        cosines = _random_cosines(rng, num_heads, num_others, dimension)
        found.append(cosines[linear_sum_assignment(cosines, maximize=True)].mean())
    sd = float(np.std(found, ddof=1))
    return AssignmentChance(float(np.mean(found)), sd, sd / NUM_SIMULATIONS**0.5)


def _random_cosines(rng: np.random.Generator, num_heads: int, num_others: int, dimension: int) -> np.ndarray:
    """Return |cos| between independent, uniformly random directions: (head, other_head).

    The directions of Gaussian vectors. Turned so that head i lies in the first i + 1 coordinates (Bartlett's
    decomposition), `num_heads` coordinates are all that matter; of the others' rest only the length does.
    """
    size = min(num_heads, dimension)
    one = np.tril(rng.standard_normal((num_heads, size)), -1)
    one[np.diag_indices(size)] = np.sqrt(_chi_square(rng, dimension - np.arange(size)))
    other = rng.standard_normal((num_others, size))
    length = np.sqrt(np.sum(other**2, axis=1) + _chi_square(rng, np.full(num_others, dimension - size)))
    return head_cosines(one / np.linalg.norm(one, axis=1, keepdims=True), other / length[:, None])


def _chi_square(rng: np.random.Generator, degrees: np.ndarray) -> np.ndarray:
    return 2 * rng.standard_gamma(degrees / 2)  # unlike rng.chisquare, 0 for 0 degrees


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else np.nan
