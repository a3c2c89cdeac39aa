"""Slow, obvious, float64 NumPy versions of every quantity in `geometry.quantities`, one entry each in `ORACLES`.

Each maps the sound matrices of a stack (layer, d_out, d_in) to a value per pair, per layer or per two layers. Cases
that have no value are the tests' business: the oracles are given matrices that have one.
"""

import math
from functools import partial

import numpy as np


def svd(matrix):
    """Return left vectors by row, values, right vectors by row."""
    u, s, vh = np.linalg.svd(np.asarray(matrix, np.float64), full_matrices=False)
    return {"u": u.T, "s": s, "v": vh}


def shares(s):
    return s**2 / sum(value**2 for value in s)


def cosine(side, one, other):
    return abs(one[side][0] @ other[side][0])


def alignment(side, one, other):
    return sum(p * abs(a @ b) for p, a, b in zip(shares(one["s"]), one[side], other[side], strict=True))


def alignment_symmetric(side, one, other):
    return (alignment(side, one, other) + alignment(side, other, one)) / 2


def alignment_best(side, one, other):
    floor = len(other[side][0]) * np.finfo(np.float32).eps * other["s"][0]
    used = [b for b, s in zip(other[side], other["s"], strict=True) if s > floor]
    return sum(p * max(abs(a @ b) for b in used) for p, a in zip(shares(one["s"]), one[side], strict=True))


def alignment_full(side, one, other):
    return sum(
        p * q * (a @ b) ** 2
        for p, a in zip(shares(one["s"]), one[side], strict=True)
        for q, b in zip(shares(other["s"]), other[side], strict=True)
    )


def overlap(k, side, one, other):
    floor = len(one[side][0]) * np.finfo(np.float32).eps
    if any(each["s"][k - 1] - each["s"][k] < floor * each["s"][0] for each in (one, other)):
        return np.nan
    return sum((a @ b) ** 2 for a in one[side][:k] for b in other[side][:k]) / k


def gap(one):
    return (one["s"][0] - one["s"][1]) / one["s"][0]


def effective_rank(one):
    return math.exp(-sum(p * math.log(p) for p in shares(one["s"]) if p > 0))


def stable_rank(one):
    return sum(value**2 for value in one["s"]) / one["s"][0] ** 2


def per_pair(function, matrices):
    spectra = [svd(matrix) for matrix in matrices]
    return np.array([function(one, other) for one, other in zip(spectra[:-1], spectra[1:], strict=True)])


def per_layer(function, matrices):
    return np.array([function(svd(matrix)) for matrix in matrices])


def per_two_layers(function, matrices):
    spectra = [svd(matrix) for matrix in matrices]
    return np.array([[function(one, other) for other in spectra] for one in spectra])


def of_side(side):
    pairs = {
        f"{side}1_cosine": partial(cosine, side),
        f"{side}_alignment": partial(alignment, side),
        f"{side}_alignment_symmetric": partial(alignment_symmetric, side),
        f"{side}_alignment_best": partial(alignment_best, side),
        f"{side}_alignment_full": partial(alignment_full, side),
        **{f"{side}_overlap{k}": partial(overlap, k, side) for k in (1, 4, 16)},
    }
    return {name: partial(per_pair, function) for name, function in pairs.items()} | {
        f"{side}1_matrix": partial(per_two_layers, partial(cosine, side))
    }


ORACLES = {
    **of_side("v"),
    **of_side("u"),
    "gap": partial(per_layer, gap),
    "effective_rank": partial(per_layer, effective_rank),
    "stable_rank": partial(per_layer, stable_rank),
    "spectral_norm": partial(per_layer, lambda one: one["s"][0]),
    "defect": partial(per_layer, lambda one: 0),
}
