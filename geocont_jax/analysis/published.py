"""Values that the paper reports, as data: of what, under which conditions, and how they reached us.

The paper's full text was not at hand. Every value here was quoted by a third party, which `via` names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geocont_jax.analysis.settings import meets

PAPER = "arXiv 2605.04971, toy network"
TABLE_1 = "arXiv 2605.04971, Table 1"
SUMMARY = "a summary written by a machine, not checked against the paper"
NOTE = "github.com/musicofhel/topo-confidence, triage-2026-05-09-2605.04971.md"

TOY_STUDY: Mapping[str, Any] = {
    "kind": "residual_mlp",
    "name": ("mnist", "mnist10k"),
    "depth": 16,
    "width": 256,
    "optimizer": "adam",
    "norm": "none",
    "init_scale": 1.0,
}
"""What the toy runs share, by short name; a tuple lists values that all count as the paper's.

Kind, depth, width and data are reported. Optimiser and initial scale are not: they are those under which the
reported values come out here.
"""


LLAMA = "Llama-3.1-8B"
LLAMA_V1: Mapping[str, float] = {"q": 0.82, "gate": 0.80}
"""Mean v1 continuity of `LLAMA` by projection: arXiv 2605.04971, Table 2, quoted by `NOTE`."""


@dataclass(frozen=True)
class Published:
    """A reported value of a metric under these `conditions`, in a `study` whose settings were these.

    `decimals` counts the digits behind the point that were printed.
    """

    metric: str
    conditions: Mapping[str, Any]
    value: float
    source: str
    via: str
    study: Mapping[str, Any] = field(default_factory=lambda: TOY_STUDY)
    decimals: int = 2


# The paper's radial activation is x tanh(|x|): scale 1.
RADIAL_STUDY = {**TOY_STUDY, "activation_scale": 1.0}

PUBLISHED = (
    Published("gradient_v1_cosine", {"residual": True, "activation": "identity"}, 0.93, PAPER, SUMMARY),
    Published("gradient_v1_cosine", {"residual": False}, 0.05, PAPER, SUMMARY),
    Published("weight_v1_cosine", {"residual": True, "activation": "identity"}, 0.22, PAPER, SUMMARY),
    Published("weight_v1_cosine", {"residual": True, "activation": "radial"}, 0.22, PAPER, SUMMARY, RADIAL_STUDY),
    Published("weight_v_alignment", {"residual": True, "activation": "relu", "norm": "none"}, 0.249, TABLE_1, NOTE,
              decimals=3),
    Published("weight_v_alignment", {"residual": True, "activation": "identity", "norm": "layernorm"}, 0.303, TABLE_1,
              NOTE, decimals=3),
)  # fmt: skip
"""Everything that was found; a condition that is not listed has no value."""


def published_entry(metric: str, settings: Mapping[str, Any]) -> Published | None:
    """Return the entry of the value that the paper reports for a run with these settings, None where none is known.

    An entry matches when `settings` (by short name) has all of its conditions, and contradicts nothing of its
    study: settings of the study that are missing are not compared, but a run that does not say what it is
    (residual, activation) is never taken for one of the paper's.

    >>> published_entry("weight_v1_cosine", {"residual": True, "activation": "radial", "init_scale": 0.3}) is None
    True
    >>> published_entry("weight_v_alignment", {"residual": True, "activation": "relu", "norm": "none"}).source
    'arXiv 2605.04971, Table 1'
    """
    return next((entry for entry in PUBLISHED if entry.metric == metric and _matches(entry, settings)), None)


def _matches(entry: Published, settings: Mapping[str, Any]) -> bool:
    known = {name: value for name, value in entry.study.items() if name in settings}
    wanted = {**known, **entry.conditions}
    return meets(settings, wanted)
