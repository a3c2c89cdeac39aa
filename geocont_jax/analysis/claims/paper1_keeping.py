"""Claims on paper 1, second half: what keeps continuity, how it reaches the weights, and whether values agree."""

from collections.abc import Mapping
from typing import Any

from geocont_jax.analysis.claims.measures import (
    Combination,
    Measure,
    PassingTime,
    after_epoch,
    before_moving,
    once_moved,
)
from geocont_jax.analysis.claims.model import Claim, Part, Variant, contrast, difference, single
from geocont_jax.analysis.claims.rules import PaperValue, above, above_chance, below, within
from geocont_jax.analysis.claims.vocabulary import (
    ABSTRACT,
    ACCURACY_END,
    ADAM_BETA2,
    ALIGNMENT_END,
    CHANCE_MARGIN,
    CONCENTRATION,
    DEDUCED,
    DRIFT,
    GAP_END,
    GRADIENT_END,
    IDENTITY_LN,
    IDENTITY_RMS,
    INIT_SCALE,
    KEPT,
    MOVED,
    NORES,
    NORMS,
    OPTIMIZERS,
    OURS,
    OVERLAP16_END,
    PAPER,
    RATIO_END,
    RELU_LN,
    RES,
    SAME,
    TABLE1,
    TRAINS,
    WEIGHT_END,
    WHY_CHANCE,
    WHY_KEPT,
    WHY_MOVED,
    WHY_PAIRED,
    WHY_SAME,
    WHY_TRAINS,
    shown,
)
from geocont_jax.analysis.published import NOTE, SUMMARY, published_entry

ELEMENTWISE = ("relu", "gelu", "silu")
GAP = "coherence_gap"
WHY_CONCENTRATED = (
    "Overlap is |V_k^T V_k'|^2/k between neighbours. Where only the leading direction agrees, that of the leading 1 "
    "stands far above that of the leading 16; where all sixteen agree alike, they are equal. By chance they are k/d, "
    "0.004 and 0.063, so that chance does not pass for concentration."
)


def keeps(name: str) -> tuple[Part, ...]:
    """Return the parts: an activation keeps what it gains, and has more than identity at the end."""
    return (
        Part(difference(WEIGHT_END, RES[name], RES["identity"]), above(0.0), WHY_PAIRED),
        Part(single(KEPT, RES[name]), above(0.0), WHY_KEPT),
    )


ACTIVATIONS = (
    Claim(
        "elementwise-keeps",
        "Elementwise activations (ReLU, GELU, SiLU) break the rotation symmetry and keep weight continuity, where a "
        "linear residual net does not.",
        f"{PAPER}, toy network", SUMMARY, TABLE1,
        tuple(part for name in ELEMENTWISE for part in keeps(name)),
    ),
    Claim(
        "elementwise-keeps-others",
        "So do other elementwise activations: tanh, which is odd and saturates, and leaky ReLU, which is nearly "
        "linear.",
        OURS, DEDUCED, TABLE1,
        tuple(part for name in ("tanh", "leaky_relu") for part in keeps(name)),
    ),
    Claim(
        "elementwise-concentrates",
        "Elementwise activations concentrate continuity in the leading singular direction, more than LayerNorm does.",
        f"{PAPER}, abstract", ABSTRACT, TABLE1,
        tuple(
            part
            for name in ELEMENTWISE
            for part in (
                Part(single(CONCENTRATION, RES[name]), above(0.0), WHY_CONCENTRATED),
                Part(difference(CONCENTRATION, RES[name], IDENTITY_LN), above(0.0), WHY_PAIRED),
            )
        ),
    ),
)  # fmt: skip

NORMALISATION = (
    Claim(
        "layernorm-keeps",
        "LayerNorm breaks the rotation symmetry too: the linear residual net keeps weight continuity with it.",
        f"{PAPER}, abstract", ABSTRACT, TABLE1,
        (
            Part(difference(WEIGHT_END, IDENTITY_LN, RES["identity"]), above(0.0), WHY_PAIRED),
            Part(single(KEPT, IDENTITY_LN), above(0.0), WHY_KEPT),
        ),
    ),
    Claim(
        "layernorm-spreads",
        "LayerNorm spreads continuity over several singular directions, more than ReLU does.",
        f"{PAPER}, abstract", ABSTRACT, TABLE1,
        (
            Part(difference(OVERLAP16_END, IDENTITY_LN, RES["relu"]), above(0.0), f"{WHY_PAIRED} {WHY_CONCENTRATED}"),
            Part(difference(CONCENTRATION, IDENTITY_LN, RES["relu"]), below(0.0), WHY_PAIRED),
            shown(difference(Measure("weight_gap", GAP_END.when), IDENTITY_LN, RES["relu"])),
        ),
    ),
    Claim(
        "alignment-order",
        "sigma^2-weighted alignment is higher for identity with LayerNorm (0.303) than for ReLU (0.249).",
        f"{PAPER}, Table 1", NOTE, TABLE1,
        (Part(difference(ALIGNMENT_END, IDENTITY_LN, RES["relu"]), above(0.0), WHY_PAIRED),),
    ),
    Claim(
        "activation-wins",
        "With an activation and LayerNorm together, the activation's pattern wins: concentration is nearer to ReLU's "
        "alone than to LayerNorm's alone.",
        f"{PAPER}, abstract", ABSTRACT, TABLE1,
        (
            Part(difference(CONCENTRATION, RES["relu"], IDENTITY_LN), above(0.0),
                 "Only if the two patterns differ can one of them win.", premise=True),
            Part(contrast(CONCENTRATION, (1.0, RELU_LN), (-0.5, RES["relu"]), (-0.5, IDENTITY_LN)),
                 above(0.0), f"0 is half way between the two. {WHY_CONCENTRATED}"),
            shown(single(CONCENTRATION, RELU_LN)),
            shown(single(CONCENTRATION, RES["relu"])),
            shown(single(CONCENTRATION, IDENTITY_LN)),
        ),
    ),
    Claim(
        "equivariant-norm-fails",
        "It is the broken symmetry that counts: RMSNorm without gain, which preserves rotations, does not keep the "
        "linear net's continuity, and LayerNorm, which takes off the mean, does better.",
        OURS, DEDUCED, NORMS,
        (
            Part(difference(WEIGHT_END, IDENTITY_RMS, RES["identity"]), below(SAME),
                 f"Not keeping is having no more than without a norm. {WHY_SAME}"),
            Part(difference(WEIGHT_END, IDENTITY_LN, IDENTITY_RMS), above(0.0), WHY_PAIRED),
            shown(single(WEIGHT_END, RES["identity"])),
            shown(single(WEIGHT_END, IDENTITY_RMS)),
            shown(single(WEIGHT_END, IDENTITY_LN)),
        ),
    ),
)  # fmt: skip

BEFORE = Measure(GAP, before_moving(0.5))
ONCE_MOVED = Measure(GAP, once_moved(1.0))
GAP_EPOCH_1 = Measure(GAP, after_epoch(1))
CLOSING = Combination(
    "coherence gap at the last record with |W-W0| < 0.5 |W0| - at the first with |W-W0| >= |W0|",
    ((1.0, BEFORE), (-1.0, ONCE_MOVED)),
)
CLOSING_LATER = Combination("coherence gap after epoch 1 - at the end", ((1.0, GAP_EPOCH_1), (-1.0, GAP_END)))
HALF_TIME = PassingTime("weight_v1_cosine", "cumulative_gradient_v1_cosine", 0.5)
WHY_GAP = f"The gap is cumulative gradient v1 minus weight v1, inside a run. {WHY_SAME}"


def scaled(name: str, scale: float) -> Variant:
    """Return a residual net at an initial scale."""
    return RES[name].but(f"scale {scale:g}", init_scale=scale)


TRANSFER = (
    Claim(
        "weights-follow-once-moved",
        "Weight continuity follows the cumulative gradient once |W-W0| exceeds |W0|: the gap between them closes.",
        f"{PAPER}, toy network", SUMMARY, TABLE1,
        tuple(
            part
            for name in ELEMENTWISE
            for part in (
                Part(single(CLOSING, RES[name]), above(0.0),
                     "Inside a run: before, below half of |W0|, against after."),
                Part(single(ONCE_MOVED, RES[name]), within(SAME), WHY_GAP),
            )
        ),
    ),
    Claim(
        "weights-follow-not-before",
        "And not before: while |W-W0| is below half of |W0|, weights do not yet follow the cumulative gradient.",
        OURS,
        f"{DEDUCED}. Against it: a coherent change of rank one overtakes the random leading value at |W0|/8 already",
        TABLE1,
        tuple(Part(single(BEFORE, RES[name]), above(SAME), WHY_GAP) for name in ELEMENTWISE),
    ),
    Claim(
        "weights-follow-small-scales",
        "Weights that have moved by more than |W0| have the continuity of the cumulative gradient: small initial "
        "scales, where that is soon.",
        f"{PAPER}, toy network", SUMMARY, INIT_SCALE,
        tuple(Part(single(ONCE_MOVED, scaled("relu", scale)), within(SAME), WHY_GAP) for scale in (0.1, 0.3)),
    ),
    Claim(
        "larger-init-delays",
        "A larger initial scale delays it: after epoch 1 weights lag further behind the cumulative gradient.",
        f"{PAPER}, toy network", SUMMARY, INIT_SCALE,
        (
            *(
                Part(difference(GAP_EPOCH_1, scaled(name, 10 * scale), scaled(name, scale)), above(0.0),
                     "Scales ten times apart, at the same moment. The time until weights have half of the cumulative "
                     "gradient's continuity is shown and does not decide: records are an epoch apart, in which 468 "
                     "steps of Adam can move any entry by far more than its initial value, so that it has no "
                     "resolution where it is short.")
                for name in ("relu", "identity")
                for scale in (0.1, 0.3)
            ),
            *(shown(difference(HALF_TIME, scaled(name, 10 * scale), scaled(name, scale)))
              for name in ("relu", "identity") for scale in (0.1, 0.3)),
        ),
    ),
    Claim(
        "imprinted",
        "With ReLU, GELU and SiLU the direction of the cumulative gradient is imprinted in the weights: the gap is "
        "small at the end.",
        f"{PAPER}, sect. 4.4 and Fig. 12", NOTE, TABLE1,
        (
            *(Part(single(GAP_END, RES[name]), within(SAME), WHY_GAP) for name in ELEMENTWISE),
            Part(single(CLOSING_LATER, RES["relu"]), above(0.0),
                 "Weight v1 approaches cumulative gradient v1 during training (Fig. 12; ReLU is our guess)."),
        ),
    ),
    Claim(
        "identity-gap-small-scale",
        "Without an activation the cumulative gradient stays coherent while the weights lose it: the gap is still open "
        "after the drift, initial scale 0.3.",
        f"{PAPER}, sect. 4.4", NOTE, DRIFT,
        (
            Part(single(GAP_END, RES["identity"]), above(SAME), WHY_GAP),
            shown(single(Measure("cumulative_gradient_v1_cosine", GAP_END.when), RES["identity"])),
            shown(single(WEIGHT_END, RES["identity"])),
        ),
    ),
)  # fmt: skip

OPTIMIZER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "adam": {"optimizer": "adam", "beta2": 0.999},
    "adam-beta2-0": {"optimizer": "adam", "beta2": 0.0, "beta1": 0.0},
    "adamw": {"optimizer": "adamw"},
    "sgd": {"optimizer": "sgd", "momentum": 0.0},
    "sgd-momentum": {"optimizer": "sgd", "momentum": 0.9},
    "sign": {"optimizer": "sign"},
    "novograd": {"optimizer": "novograd"},
    "muon": {"optimizer": "muon"},
}
"""Optimisers by name."""

OPTIMIZER_SWEEPS = {"adam-beta2-0": ADAM_BETA2}
"""The sweeps of optimisers that are not in `OPTIMIZERS`: with its beta1 of 0.9, Adam diverges where beta2 is 0."""

PAPERS_OPTIMIZERS = ("adam", "adam-beta2-0")
"""Those that are known to be the paper's: it names beta2 = 0, and speaks of other settings."""


def under(optimizer: str, name: str) -> Variant:
    """Return a residual net under an optimiser."""
    return RES[name].but(f"({optimizer})", **OPTIMIZER_SETTINGS[optimizer])


def learned(variant: Variant) -> tuple[Part, ...]:
    """Return the premises: the net has learned its task, and its weights have moved."""
    return (
        Part(single(ACCURACY_END, variant), above(TRAINS), WHY_TRAINS, premise=True),
        Part(single(RATIO_END, variant), above(MOVED), WHY_MOVED, premise=True),
    )


OPTIMIZER_CLAIMS = (
    *(
        Claim(
            f"optimizer-{name}",
            f"Continuity is no artefact of the optimiser: under {name} the ReLU net has it, more than the linear one.",
            f"{PAPER}, toy network" if name in PAPERS_OPTIMIZERS else OURS,
            SUMMARY if name in PAPERS_OPTIMIZERS else f"{DEDUCED}; it speaks of other settings",
            OPTIMIZER_SWEEPS.get(name, OPTIMIZERS),
            (
                *learned(under(name, "relu")),
                Part(single(WEIGHT_END, under(name, "relu")), above_chance(CHANCE_MARGIN), WHY_CHANCE),
                Part(difference(WEIGHT_END, under(name, "relu"), under(name, "identity")), above(0.0), WHY_PAIRED),
                shown(single(RATIO_END, under(name, "identity"))),
            ),
        )
        for name in OPTIMIZER_SETTINGS
    ),
    *(
        Claim(
            f"equivariant-{name}",
            f"The linear and the radial net fail under {name} as well, which turns with the gradient, so that not only "
            "the loss but the training has the rotation symmetry (Adam breaks it by itself).",
            OURS, DEDUCED, OPTIMIZERS,
            tuple(
                part
                for net in ("identity", "radial")
                for part in (
                    *learned(under(name, net)),
                    Part(difference(WEIGHT_END, under(name, net), under("adam", net)), below(SAME),
                         f"Failing is having no more continuity than under Adam. {WHY_SAME}"),
                    shown(single(WEIGHT_END, under(name, net))),
                    shown(single(WEIGHT_END, under("adam", net))),
                )
            ),
        )
        for name in ("sgd-momentum", "novograd", "muon")
    ),
)  # fmt: skip


def value(id: str, measure: Measure, rival: float, why: str, *variants: Variant) -> Claim:
    """Return the claim that the paper's value of a measure comes out here, for every variant it was given for."""
    entries = [published_entry(measure.metric, variant.settings) for variant in variants]
    entry = entries[0]
    if entry is None or any(other is not entry for other in entries):
        raise ValueError(f"claim {id}: the variants have no one published value of {measure.metric}")
    names = " and ".join(variant.name for variant in variants)
    return Claim(
        f"value-{id}",
        f"{measure.words}, {names}: {entry.value:.{entry.decimals}f}. (The paper's training length is not known.)",
        entry.source, entry.via, TABLE1,
        tuple(Part(single(measure, variant), PaperValue(entry.value, entry.decimals, rival), why)
              for variant in variants),
    )  # fmt: skip


CHANCE = 0.05
WHY_FROM_CHANCE = "Against chance, 0.05: an interval that reaches down to it cannot tell the value from nothing."
WHY_FROM_OTHER = "Against the other value of the same table: the paper tells the two architectures apart by them."

VALUES = (
    value("gradient-identity", GRADIENT_END, 0.93 - SAME,
          f"Against 0.1 less, for an interval down to there would agree with almost any coherence. {WHY_SAME}",
          RES["identity"]),
    value("gradient-no-residual", GRADIENT_END, 2 * CHANCE,
          "Against twice chance, from where it would count as clear of it.", NORES["relu"], NORES["identity"]),
    value("weight-identity", WEIGHT_END, CHANCE, WHY_FROM_CHANCE, RES["identity"]),
    value("weight-radial", WEIGHT_END, CHANCE, WHY_FROM_CHANCE, RES["radial"]),
    value("alignment-relu", ALIGNMENT_END, 0.303, WHY_FROM_OTHER, RES["relu"]),
    value("alignment-layernorm", ALIGNMENT_END, 0.249, WHY_FROM_OTHER, IDENTITY_LN),
)  # fmt: skip

KEEPING = (*ACTIVATIONS, *NORMALISATION, *TRANSFER, *OPTIMIZER_CLAIMS, *VALUES)
"""Claims on activations, norms, the way from gradient to weights, optimisers, and values."""
