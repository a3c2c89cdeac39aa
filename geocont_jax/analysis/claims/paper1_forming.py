"""Claims on paper 1, first half: where coherence comes from, and what becomes of it without elementwise activations."""

from geocont_jax.analysis.claims.measures import END, LARGEST, SMALLEST, START, Measure
from geocont_jax.analysis.claims.model import Claim, Part, Variant, difference, single
from geocont_jax.analysis.claims.rules import above, above_chance, at_chance, below, within
from geocont_jax.analysis.claims.vocabulary import (
    ACCURACY_END,
    C16,
    CHANCE_MARGIN,
    DEDUCED,
    DRIFT,
    DRIFT_END,
    GAP_END,
    GRADIENT_END,
    GRADIENT_START,
    HALF_TURN,
    KEPT,
    NO_RESIDUAL,
    NORES,
    OURS,
    PAPER,
    RADIAL,
    RADIAL_16,
    RATIO_END,
    RES,
    RISE,
    RISE_MARGIN,
    SAME,
    TABLE1,
    TRAINS,
    WEIGHT_END,
    WHY_CHANCE,
    WHY_KEPT,
    WHY_PAIRED,
    WHY_RISE,
    WHY_SAME,
    WHY_TRAINS,
    WHY_TURN,
    shown,
)
from geocont_jax.analysis.published import SUMMARY

UPDATE_END = Measure("update_v1_cosine", END)
NORM_START, NORM_END = Measure("preactivation_norm", START), Measure("preactivation_norm", END)


def drifts(variant: Variant) -> tuple[Part, ...]:
    """Return the parts: continuity rises, more than half of the rise is gone at the end, and v1 has turned."""
    return (
        Part(single(RISE, variant), above(RISE_MARGIN), WHY_RISE),
        Part(single(KEPT, variant), below(0.0), WHY_KEPT),
        Part(single(DRIFT_END, variant), above(HALF_TURN), WHY_TURN),
    )


def moved(variant: Variant) -> tuple[Part, ...]:
    """Return what is shown beside a drift: where weight and update have come to, and how far."""
    return tuple(shown(single(measure, variant)) for measure in (WEIGHT_END, UPDATE_END, RATIO_END))


RESIDUAL = (
    Claim(
        "residual-gradient-at-start",
        "Residual connections make the gradients of neighbouring layers coherent at initialisation, before any update.",
        f"{PAPER}, toy network", SUMMARY, TABLE1,
        tuple(
            part
            for name in ("relu", "identity")
            for part in (
                Part(single(GRADIENT_START, RES[name]), above_chance(CHANCE_MARGIN), WHY_CHANCE),
                Part(difference(GRADIENT_START, RES[name], NORES[name]), above(0.0), WHY_PAIRED),
            )
        ),
    ),
    *(
        Claim(
            f"no-residual-gradient-{name}",
            f"Without residual connections gradient continuity is at the random level, about 0.05: activation {name}.",
            f"{PAPER}, toy network", SUMMARY, TABLE1,
            (
                Part(single(GRADIENT_START, NORES[name]), at_chance(CHANCE_MARGIN), WHY_CHANCE),
                Part(single(GRADIENT_END, NORES[name]), at_chance(CHANCE_MARGIN), WHY_CHANCE),
                shown(single(Measure("gradient_u1_cosine", START), NORES[name])),
                shown(single(Measure("gradient_u1_cosine", END), NORES[name])),
                shown(single(ACCURACY_END, NORES[name])),
            ),
        )
        for name in ("identity", "relu")
    ),
    *(
        Claim(
            f"no-residual-weights-{name}",
            f"Without residual connections weight continuity never forms: activation {name}.",
            f"{PAPER}, toy network", SUMMARY, TABLE1,
            (
                Part(single(RISE, NORES[name]), below(RISE_MARGIN), WHY_RISE),
                shown(single(WEIGHT_END, NORES[name])),
                shown(single(Measure("weight_u1_cosine", END), NORES[name])),
                shown(single(ACCURACY_END, NORES[name])),
                shown(single(RATIO_END, NORES[name])),
            ),
        )
        for name in ("identity", "relu")
    ),
    Claim(
        "no-residual-weights-where-it-trains",
        "Weight continuity does not form without residual connections in a net that learns its task either: "
        "NoRes+relu with hidden matrices three times as large, which lets it train.",
        OURS, DEDUCED, NO_RESIDUAL,
        (
            Part(single(ACCURACY_END, NORES["relu"]), above(TRAINS), WHY_TRAINS, premise=True),
            Part(single(RISE, NORES["relu"]), below(RISE_MARGIN), WHY_RISE),
            shown(single(WEIGHT_END, NORES["relu"])),
            shown(single(Measure("weight_u1_cosine", END), NORES["relu"])),
            shown(single(GRADIENT_END, NORES["relu"])),
        ),
    ),
)  # fmt: skip

LINEAR = (
    Claim(
        "identity-gradient",
        "Without an activation the residual net's gradients are coherent to the end, and its weights are not: weight "
        "continuity stays below gradient continuity.",
        f"{PAPER}, toy network", SUMMARY, TABLE1,
        (
            Part(single(GRADIENT_END, RES["identity"]), above_chance(CHANCE_MARGIN), WHY_CHANCE),
            Part(single(GAP_END, RES["identity"]), above(SAME),
                 f"Cumulative gradient v1 minus weight v1, inside a run. {WHY_SAME}"),
            Part(difference(WEIGHT_END, RES["relu"], RES["identity"]), above(0.0), WHY_PAIRED),
        ),
    ),
    Claim(
        "identity-drift-paper-scale",
        "Without an activation weight continuity first forms, then collapses by rotation drift: at the initial scale "
        "under which the paper's values come out.",
        f"{PAPER}, toy network and Fig. 2a", SUMMARY, TABLE1,
        (
            *drifts(RES["identity"]),
            *moved(RES["identity"]),
        ),
    ),
    Claim(
        "identity-drift-small-scale",
        "Without an activation weight continuity first forms, then collapses by rotation drift: with hidden matrices "
        "0.3 times as large at the start, where it has most to lose.",
        f"{PAPER}, toy network and Fig. 2a", SUMMARY, DRIFT,
        (
            *drifts(RES["identity"]),
            Part(difference(DRIFT_END, RES["identity"], RES["relu"]), above(0.0), WHY_PAIRED),
            *moved(RES["identity"]),
            shown(single(Measure("weight_gap", END), RES["identity"])),
        ),
    ),
    Claim(
        "relu-no-drift",
        "An elementwise activation prevents the drift: ReLU forms and keeps weight continuity where the linear net "
        "loses it, and its leading directions stay near those of epoch 1.",
        f"{PAPER}, toy network and Fig. 2a", SUMMARY, DRIFT,
        (
            Part(single(RISE, RES["relu"]), above(RISE_MARGIN), WHY_RISE),
            Part(single(KEPT, RES["relu"]), above(0.0), WHY_KEPT),
            Part(single(DRIFT_END, RES["relu"]), below(HALF_TURN), WHY_TURN),
            shown(single(WEIGHT_END, RES["relu"])),
        ),
    ),
)  # fmt: skip

NONLINEAR = 3.0
WHY_NONLINEAR = (
    "tanh(3) = 0.995: for longer inputs x tanh(|x|) is the identity to half a percent. The smallest record is taken: "
    "it is enough if the nonlinear range is reached once."
)
WHY_BENT = (
    "tanh(2) = 0.964: for inputs shorter than 2 c the activation bends by more than 3 %, and its slope along the "
    "input is another than across it."
)
WHY_NOT_BETTER = f"Failing like identity is keeping no more than it does. {WHY_SAME}"


def radial_control(name: str, scale: float, premises: tuple[Part, ...]) -> Claim:
    """Return the claim that a really nonlinear radial activation fails too, at an initial scale."""
    radial, identity = (net.but(f"scale {scale:g}", init_scale=scale) for net in (RADIAL_16, RES["identity"]))
    return Claim(
        f"radial-nonlinear-{name}",
        "A rotation-preserving activation keeps no more continuity than none, also where it is really nonlinear: "
        f"x tanh(|x|/c) with c = 16, initial scale {scale:g}.",
        f"{PAPER}, sect. 4.3", f"{DEDUCED}; the paper's own control has c = 1", RADIAL,
        (
            *(Part(single(measure, radial), below(2 * C16), WHY_BENT, premise=True)
              for measure in (NORM_START, NORM_END)),
            *premises,
            Part(difference(WEIGHT_END, radial, identity), below(SAME), WHY_NOT_BETTER),
            shown(single(KEPT, radial)),
            shown(single(Measure("weight_v1_cosine", LARGEST), radial)),
            shown(single(WEIGHT_END, radial)),
            shown(single(RATIO_END, radial)),
            shown(single(RATIO_END, identity)),
        ),
    )  # fmt: skip


IDENTITY_SMALL = RES["identity"].but("scale 0.3", init_scale=0.3)

RADIALS = (
    Claim(
        "radial-fails-like-identity",
        "A nonlinear activation that preserves rotations, x tanh(|x|), fails as none does: coherent gradients, and "
        "weight continuity as low as without an activation.",
        f"{PAPER}, sect. 4.3", SUMMARY, TABLE1,
        (
            Part(single(GRADIENT_END, RES["radial"]), above_chance(CHANCE_MARGIN), WHY_CHANCE),
            Part(difference(WEIGHT_END, RES["relu"], RES["radial"]), above(0.0), WHY_PAIRED),
            Part(difference(WEIGHT_END, RES["radial"], RES["identity"]), within(SAME), WHY_SAME),
        ),
    ),
    Claim(
        "radial-drifts-like-identity",
        "With x tanh(|x|) weight continuity forms and collapses by rotation drift, as without an activation: initial "
        "scale 0.3.",
        f"{PAPER}, sect. 4.3", SUMMARY, DRIFT,
        (
            *drifts(RES["radial"]),
            Part(difference(WEIGHT_END, RES["radial"], RES["identity"]), within(SAME), WHY_SAME),
        ),
    ),
    Claim(
        "radial-control-is-nonlinear",
        "The control x tanh(|x|) is nonlinear where its inputs are, so that it separates nonlinearity from symmetry "
        "breaking.",
        f"{PAPER}, sect. 4.3", DEDUCED, TABLE1,
        (
            Part(single(Measure("preactivation_norm", SMALLEST), RES["radial"]), below(NONLINEAR), WHY_NONLINEAR),
            shown(single(NORM_START, RES["radial"])),
            shown(single(NORM_END, RES["radial"])),
        ),
    ),
    radial_control(
        "small-scale", 0.3,
        (Part(single(KEPT, IDENTITY_SMALL), below(0.0),
              f"The comparison is fair once identity itself has failed. {WHY_KEPT}", premise=True),),
    ),
    radial_control("paper-scale", 1.0, ()),
)  # fmt: skip

FORMING = (*RESIDUAL, *LINEAR, *RADIALS)
"""Claims on residual connections, drift and rotation-preserving activations."""
