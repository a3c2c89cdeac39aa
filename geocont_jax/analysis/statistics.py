"""Mean and interval over seeds."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

NAN = float("nan")


class Description(NamedTuple):
    """A sample of seeds: `n` values that are not NaN, their mean, sample sd, standard error and 95 % interval."""

    n: int
    mean: float
    sd: float
    sem: float
    ci95_low: float
    ci95_high: float


class Average(NamedTuple):
    """Means, and over how many values each of them is: none has NaN."""

    mean: np.ndarray
    number: np.ndarray


def nan_average(values: np.ndarray, axis: int | tuple[int, ...]) -> Average:
    """Average over axes in float64, leaving NaN values out.

    >>> found = nan_average(np.array([[0.25, np.nan, 0.75], [np.nan, np.nan, np.nan]]), axis=1)
    >>> found.mean.tolist(), found.number.tolist()
    ([0.5, nan], [2, 0])
    """
    number = (~np.isnan(values)).sum(axis=axis)
    total = np.nansum(values.astype(np.float64), axis=axis)
    return Average(np.where(number > 0, total / np.maximum(number, 1), np.nan), number)


def student_half_width(degrees_of_freedom: int) -> float:
    """Return how many standard errors the 95 % interval of a mean reaches to each side.

    >>> round(student_half_width(2), 3)
    4.303
    """
    return float(stdtrit(degrees_of_freedom, 0.975))


def describe(values: Iterable[float]) -> Description:
    """Describe a sample of independent values, one a seed.

    `sd` divides by n - 1, `sem = sd / sqrt(n)`, the interval is `mean -+ t(0.975, n - 1) sem` (Student). NaN values
    are left out and `n` says how many counted; one value has no sd and no interval (NaN), none has no mean either.

    >>> sample = describe([0.80, 0.82, 0.78])
    >>> round(sample.sd, 4), round(sample.sem, 4), round(sample.ci95_high - sample.mean, 4)
    (0.02, 0.0115, 0.0497)
    """
    sample = np.asarray(list(values), np.float64)
    sample = sample[~np.isnan(sample)]
    n = len(sample)
    if n == 0:
        return Description(0, NAN, NAN, NAN, NAN, NAN)
    mean = float(sample.mean())
    if n == 1:
        return Description(1, mean, NAN, NAN, NAN, NAN)
    with np.errstate(invalid="ignore"):  # an infinite loss has an infinite mean, and no sd
        sd = float(sample.std(ddof=1))
    sem = sd / float(np.sqrt(n))
    half_width = student_half_width(n - 1) * sem
    return Description(n, mean, sd, sem, mean - half_width, mean + half_width)
