"""What |cos| is by chance: the null distribution of independent random directions."""

import math


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


def z_score(mean: float, dimension: float, num_pairs: float, num_runs: int) -> float:
    """Return how many null standard errors a mean |cos| over pairs and runs lies above chance.

    `z = (mean - chance) / (sd / sqrt(num_pairs num_runs))`; NaN without pairs or runs. `num_pairs` is per run;
    where runs have different numbers of pairs, their harmonic mean makes this exact for a mean of run means.

    Pairs (l-1, l) and (l, l+1) share v_l, and still count as independent *under the null*: given v_l the other two
    are independent, and by rotation invariance neither |cos| depends on where v_l points. So all the |cos| of a
    net of independent isotropic layers are independent. Trained layers are not, which is why z only says how far
    chance is; how sure the mean of an effect is, only seeds say (`analysis.statistics.describe`).

    >>> round(z_score(0.0699, 256, num_pairs=15, num_runs=3), 1)
    3.6
    """
    if num_pairs * num_runs == 0:
        return math.nan
    return (mean - chance_level(dimension)) / (chance_sd(dimension) / math.sqrt(num_pairs * num_runs))
