"""What the measures of alignment are by chance: their null distributions under independent random frames.

The null is a net of unrelated layers: the singular vectors of each are a Haar-random orthogonal frame, independent
of those of other layers and of all singular values. `NULLS` says for each kind of measure what it is then.

Pairs (l-1, l) and (l, l+1) share the frame V_l, and still count as independent *under the null*, whatever the kind.
All kinds are functions of the products `M_l = V_l^T V_{l+1}` and of the singular values. Given V_0..V_l, the frame
V_{l+1} is still Haar-random, so by rotation invariance M_l has the same distribution wherever V_l points: M_l is
independent of V_0..V_l and so of M_0..M_{l-1}. With the singular values given, measures of different pairs are
therefore independent; and because no mean depends on the singular values, they are uncorrelated without that too.
Trained layers are not independent, which is why z only says how far chance is; how sure the mean of an effect is,
only seeds say (`analysis.statistics.describe`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from scipy.integrate import quad


class Moment(Protocol):
    """A number that depends on the dimension d and, for subspaces, on their dimension k."""

    def __call__(self, dimension: float, k: int = 1) -> float:
        """Return the number."""


@dataclass(frozen=True)
class Null:
    """The null distribution of one kind of measure, for a single pair of layers.

    `mean(dimension, k)` and `sd(dimension, k)`; `k` is ignored by kinds that have none. `sd` is exact or, for sums
    over several directions, an upper bound. `formula` says which, in words and symbols.

    >>> round(NULLS["alignment_best"].mean(256), 3), NULLS["overlap"].mean(256, k=4)
    (0.19, 0.015625)
    """

    mean: Moment
    sd: Moment
    formula: str


def chance_level(dimension: float) -> float:
    """Return the mean |cos| of two independent, uniformly random directions.

    `sqrt(2 / (pi d))`, the large-d form of the exact `Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))`. It is smaller than
    that by a share of about 1 / (4 d): 1.5 % at d = 16, 0.10 % at d = 256.

    Args: `dimension`, the d of the space that both directions live in. Source: the null of arXiv 2605.04971, Eq. 1.

    >>> round(chance_level(256), 4)
    0.0499
    """
    return math.sqrt(2.0 / (math.pi * dimension))


def chance_sd(dimension: float) -> float:
    """Return the standard deviation of one such |cos|.

    `sqrt(1/d - 2/(pi d))`, because E cos^2 = 1/d exactly (the squared coordinates of a unit vector sum to 1). It
    takes its mean from `chance_level`, which makes it larger than the exact one by 2.9 % at d = 16, 0.17 % at 256.

    >>> round(chance_sd(256), 4)
    0.0377
    """
    return math.sqrt((1.0 - 2.0 / math.pi) / dimension)


def best_mean(dimension: float) -> float:
    """Return the mean of the largest |cos| between a random direction and the d directions of a random frame.

    That is `E max_j |x_j|` for x uniform on the unit sphere. With g a standard Gaussian vector, x = g / |g| is
    independent of |g|, so it is `E max_j |g_j| / E |g|` exactly. For a frame of fewer than d directions (a matrix
    with fewer singular values than d) it is an upper bound.

    >>> round(best_mean(2), 4), round(2 * math.sqrt(2) / math.pi, 4)  # in the plane: the mean of cos over +-45 degrees
    (0.9003, 0.9003)
    """
    mean_length = math.sqrt(2.0) * math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
    return _largest_gaussian(dimension, 1) / mean_length


def best_sd(dimension: float) -> float:
    """Return the standard deviation of that largest |cos|: `sqrt(E max_j g_j^2 / d - mean^2)`, exactly.

    >>> round(best_sd(256), 4)
    0.0215
    """
    return math.sqrt(_largest_gaussian(dimension, 2) / dimension - best_mean(dimension) ** 2)


@lru_cache(maxsize=256)
def _largest_gaussian(dimension: float, power: int) -> float:
    """Return `E (max_j |g_j|)^power` of d independent standard Gaussians, as the integral of its tail."""

    def tail(t: float) -> float:
        return power * t ** (power - 1) * (1.0 - math.erf(t / math.sqrt(2.0)) ** dimension)

    # The maximum concentrates below sqrt(2 log d); ten standard deviations above, the tail is zero in float64.
    return float(quad(tail, 0.0, math.sqrt(2.0 * math.log(dimension)) + 10.0, epsabs=1e-12, limit=200)[0])


def overlap_mean(dimension: float, k: int = 1) -> float:
    """Return the mean of `|V_k^T V_k'|_F^2 / k` for two independent random k-dimensional subspaces: `k / d`.

    Where k reaches d the subspaces are the whole space and the overlap is 1.

    >>> overlap_mean(256, 16)
    0.0625
    """
    return min(k, dimension) / dimension


def overlap_sd(dimension: float, k: int = 1) -> float:
    """Return the standard deviation of that overlap: `sqrt(2 / ((d - 1) (d + 2))) (d - k) / d`, exactly.

    `|V_k^T V_k'|_F^2` is the trace of the product of two random projections, whose variance is
    `2 k^2 (d - k)^2 / (d^2 (d - 1) (d + 2))`. At k = 1 it is that of a single squared cosine.

    >>> overlap_sd(256, 256), round(overlap_sd(256, 16), 5)
    (0.0, 0.00517)
    """
    return math.sqrt(2.0 / ((dimension - 1.0) * (dimension + 2.0))) * max(dimension - k, 0.0) / dimension


def _without_k(moment: Callable[[float], float]) -> Moment:
    return lambda dimension, k=1: moment(dimension)


# The sd of a weighted mean (weights that sum to 1) is at most the largest sd of what it averages, whatever the weights
# and correlations. For the alignments no smaller bound holds for all spectra: with one dominant singular value it is
# reached, while many directions of equal weight average out to far less.
NULLS: dict[str, Null] = {
    "cosine": Null(
        _without_k(chance_level), _without_k(chance_sd), "mean sqrt(2/(pi d)), sd sqrt((1 - 2/pi)/d), for large d"
    ),
    "alignment": Null(
        _without_k(chance_level), _without_k(chance_sd), "mean sqrt(2/(pi d)), sd at most sqrt((1 - 2/pi)/d)"
    ),
    "alignment_best": Null(
        _without_k(best_mean),
        _without_k(best_sd),
        "mean E max_j |x_j| for x uniform on the unit sphere, sd at most its",
    ),
    "alignment_full": Null(
        _without_k(overlap_mean), _without_k(overlap_sd), "mean 1/d exactly, sd at most sqrt(2 (d - 1)/(d + 2))/d"
    ),
    "overlap": Null(overlap_mean, overlap_sd, "mean k/d, sd sqrt(2/((d - 1)(d + 2))) (d - k)/d, both exactly"),
}
"""Null distributions by kind of measure.

`cosine` is `|v1 . v1'|`; `alignment` is `sum_i p_i |v_i . v_i'|` with any weights p that sum to 1 (index-matched or
symmetric); `alignment_best` is `sum_i p_i max_j |v_i . v_j'|`; `alignment_full` is `sum_ij p_i q_j (v_i . v_j')^2`;
`overlap` is `|V_k^T V_k'|_F^2 / k`.
"""


def z_score(mean: float, dimension: float, num_pairs: float, num_runs: int, null: str = "cosine", k: int = 1) -> float:
    """Return how many null standard errors a mean over pairs and runs lies above chance.

    `z = (mean - null mean) / (null sd / sqrt(num_pairs num_runs))`; NaN without pairs or runs, and where chance has
    no spread (k >= d). `num_pairs` is per run; where runs have different numbers of pairs, their harmonic mean
    makes this exact for a mean of run means.

    For the alignments the null sd is an upper bound, so that |z| is a lower bound: chance is at least that far.
    Pairs count as independent, which they are under the null (see the module).

    Args: `null`, the kind of measure, a name in `NULLS`; `k`, of subspaces. Raises KeyError for another name.

    >>> round(z_score(0.0699, 256, num_pairs=15, num_runs=3), 1)
    3.6
    >>> round(z_score(0.0199, 256, num_pairs=15, num_runs=3, null="overlap", k=4), 1)
    5.3
    """
    of_pair = NULLS[null]
    sd = of_pair.sd(dimension, k)
    if num_pairs * num_runs == 0 or sd == 0:
        return math.nan
    return (mean - of_pair.mean(dimension, k)) / (sd / math.sqrt(num_pairs * num_runs))
