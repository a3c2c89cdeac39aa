"""What arXiv 2605.04971 says of pretrained transformers: which projections line up, and on which side.

The unit is the model: a claim about pretrained models is one about models that were not measured, and the layers of
one are no independent samples of it. The mean cosines of one model, SmolLM2-135M-Instruct, were known when the rules
were fixed.
"""

from geocont_jax.analysis.claims.measures import END, Combination, Measure, When
from geocont_jax.analysis.claims.model import Claim, Part, Sweep, Variant, single
from geocont_jax.analysis.claims.rules import Reading, above, below, within
from geocont_jax.analysis.claims.vocabulary import ABSTRACT, PAPER, SAME, WHY_SAME, shown
from geocont_jax.analysis.published import LLAMA, LLAMA_V1, NOTE

CHECKPOINT = When("", END.choose)
MODELS = Variant("pretrained models", {})
PRETRAINED = Sweep("pretrained", {}, "python -m geocont_jax.analyze PATH")

READERS, WRITERS = ("q", "k", "gate", "up"), ("o", "down")
SIDE = {**dict.fromkeys(READERS, "v1"), **dict.fromkeys(WRITERS, "u1")}
OTHER_SIDE = {"v1": "u1", "u1": "v1"}

ABOVE_CHANCE = 0.05
WHY_ABOVE = (
    "The same 0.05 that is asked of the toy networks: more than chance over again in a space of 256 dimensions. Chance "
    "is taken off first, for models differ in their dimensions."
)
WHY_SIDES = "Chance is taken off on both sides, whose dimensions may differ; the difference is taken model by model."
WHY_LLAMA = (
    "A number of one and the same checkpoint has no sampling error. One unit of its last digit leaves room for "
    "rounding and for choices that the note does not tell, such as the precision of the decomposition."
)


def excess(projection: str, side: str) -> Measure:
    """Return a projection's continuity on a side, less what it is by chance."""
    return Measure(f"{projection}_{side}_excess", CHECKPOINT)


def lead(projection: str, side: str, other: str, other_side: str) -> Combination:
    """Return how much more a projection lines up on a side than another does on its own."""
    words = f"{projection} {side} - {other} {other_side}, both above chance"
    return Combination(words, ((1.0, excess(projection, side)), (-1.0, excess(other, other_side))))


PRETRAINED_CLAIMS = (
    Claim(
        "pretrained-readers",
        "In pretrained transformers the matrices that read the residual stream line up on their input side: Q, K, gate "
        "and up.",
        PAPER, ABSTRACT, PRETRAINED,
        tuple(Part(single(excess(name, "v1"), MODELS), above(ABOVE_CHANCE), WHY_ABOVE) for name in READERS),
    ),
    Claim(
        "pretrained-writers",
        "In pretrained transformers the matrices that write to the residual stream line up on their output side: O and "
        "down.",
        PAPER, ABSTRACT, PRETRAINED,
        tuple(Part(single(excess(name, "u1"), MODELS), above(ABOVE_CHANCE), WHY_ABOVE) for name in WRITERS),
    ),
    Claim(
        "pretrained-sides",
        "It is the side of the residual stream that lines up, not the other one.",
        PAPER, ABSTRACT, PRETRAINED,
        tuple(
            Part(single(lead(name, side, name, OTHER_SIDE[side]), MODELS), above(0.0), WHY_SIDES)
            for name, side in SIDE.items()
        ),
    ),
    Claim(
        "pretrained-value-low",
        "V has low continuity on both sides, and less than Q.",
        PAPER, ABSTRACT, PRETRAINED,
        (
            *(Part(single(excess("v", side), MODELS), below(SAME), WHY_SAME) for side in ("v1", "u1")),
            Part(single(lead("q", "v1", "v", "v1"), MODELS), above(0.0), WHY_SIDES),
        ),
    ),
    Claim(
        "pretrained-not-similar",
        "Continuity is not similarity: the matrices themselves are nearly orthogonal between adjacent layers.",
        PAPER, "a public engineering note on Llama 8B and 70B, quoted as a contrast", PRETRAINED,
        tuple(
            Part(single(Measure(f"{name}_matrix_cosine", CHECKPOINT), MODELS), within(SAME), WHY_SAME)
            for name in SIDE
        ),
    ),
    *(
        Claim(
            f"value-llama-{name}",
            f"Mean v1 continuity of {name} in {LLAMA}: {value:.2f}.",
            f"{PAPER}, Table 2", NOTE, PRETRAINED,
            (
                Part(
                    single(Measure(f"{name}_v1_cosine", CHECKPOINT), Variant(LLAMA, {"model": LLAMA})),
                    Reading(value, 2), WHY_LLAMA,
                ),
                shown(single(Measure(f"{name}_v1_cosine", CHECKPOINT), MODELS)),
            ),
        )
        for name, value in LLAMA_V1.items()
    ),
)  # fmt: skip
"""Claims about pretrained models, in the order of the scoreboard."""
