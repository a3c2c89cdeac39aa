"""The words that the claims on paper 1 are made of: sweeps, variants, measures, and margins with their reasons.

Margins are in |cos| unless they say otherwise. They were fixed before the sweeps were run, from what is written
beside them; a trial with one seed, known by then, helped to choose settings and no margin. There are d = 256
features, 16 layers and so 15 pairs throughout.
"""

from geocont_jax.analysis.claims.measures import END, LARGEST, START, Combination, Measure
from geocont_jax.analysis.claims.model import Part, Statistic, Sweep, Variant
from geocont_jax.analysis.claims.rules import SHOWN
from geocont_jax.analysis.published import SUMMARY

PAPER = "arXiv 2605.04971"
OURS = "this project"
DEDUCED = "deduced from what the paper says; not a claim of its own"
ABSTRACT = f"its abstract, and {SUMMARY}"

# --- Sweeps --------------------------------------------------------------------------------------------------------

NETWORK = {
    "kind": "residual_mlp",
    "name": "mnist",
    "depth": 16,
    "width": 256,
    "batch_size": 128,
    "init": "torch_uniform",
    "bias": False,
    "every": "epoch",
    "reference": "epoch",
}
ADAM = {**NETWORK, "optimizer": "adam", "learning_rate": 1e-3}

TABLE1 = Sweep("paper_table1", {**ADAM, "init_scale": 1.0, "epochs": 20})
DRIFT = Sweep("paper_drift", {**ADAM, "init_scale": 0.3, "epochs": 20})
INIT_SCALE = Sweep("paper_init_scale", {**ADAM, "epochs": 10})
OPTIMIZERS = Sweep("paper_optimizers", {**NETWORK, "init_scale": 0.3})
ADAM_BETA2 = Sweep(
    "adam_beta2_control",
    {**NETWORK, "init_scale": 0.3, "optimizer": "adam", "learning_rate": 1e-4, "beta2": 0.0, "epochs": 10},
)
NORMS = Sweep("paper_norms", {**ADAM, "init_scale": 1.0, "epochs": 10})
RADIAL = Sweep("radial_control", {**ADAM, "epochs": 10})
NO_RESIDUAL = Sweep("no_residual_control", {**ADAM, "init_scale": 3.0, "epochs": 20})

# --- Variants ------------------------------------------------------------------------------------------------------


def _net(name: str, residual: bool, activation: str, norm: str = "none") -> Variant:
    scale = {"activation_scale": 1.0} if activation == "radial" else {}
    return Variant(name, {"residual": residual, "activation": activation, "norm": norm, **scale})


RES = {name: _net(f"Res+{name}", True, name) for name in
       ("identity", "relu", "gelu", "silu", "tanh", "leaky_relu", "radial")}  # fmt: skip
NORES = {name: _net(f"NoRes+{name}", False, name) for name in ("identity", "relu")}
IDENTITY_LN = _net("Res+identity+LN", True, "identity", "layernorm")
IDENTITY_RMS = _net("Res+identity+RMS", True, "identity", "rmsnorm")
RELU_LN = _net("Res+relu+LN", True, "relu", "layernorm")
C16 = 16.0
RADIAL_16 = RES["radial"].but("c=16", activation_scale=C16)

# --- Measures ------------------------------------------------------------------------------------------------------

GRADIENT_START = Measure("gradient_v1_cosine", START)
GRADIENT_END = Measure("gradient_v1_cosine", END)
WEIGHT_START = Measure("weight_v1_cosine", START)
WEIGHT_END = Measure("weight_v1_cosine", END)
WEIGHT_LARGEST = Measure("weight_v1_cosine", LARGEST)
ALIGNMENT_END = Measure("weight_v_alignment", END)
OVERLAP1_END = Measure("weight_v_overlap1", END)
OVERLAP16_END = Measure("weight_v_overlap16", END)
DRIFT_END = Measure("weight_v1_drift", END)
GAP_END = Measure("coherence_gap", END)
RATIO_END = Measure("update_ratio", END)
ACCURACY_END = Measure("test_accuracy", END)


RISE = Combination("rise of weight v1, largest - first", ((1.0, WEIGHT_LARGEST), (-1.0, WEIGHT_START)))
KEPT = Combination(
    "weight v1 kept, last - (first + largest)/2",
    ((1.0, WEIGHT_END), (-0.5, WEIGHT_START), (-0.5, WEIGHT_LARGEST)),
)
CONCENTRATION = Combination(
    "concentration at the end, overlap of the leading 1 - of the leading 16",
    ((1.0, OVERLAP1_END), (-1.0, OVERLAP16_END)),
)


# --- Margins -------------------------------------------------------------------------------------------------------

CHANCE_MARGIN = 0.05
WHY_CHANCE = (
    "0.05 is chance itself over again: five standard errors (0.0097) of a mean over 15 random pairs, and less than a "
    "third of the 0.17 that separates 0.22, the lowest continuity that the paper gives a trained residual net, from "
    "chance."
)
RISE_MARGIN = 0.05
WHY_RISE = (
    "The largest record is never below the first, so 0 would be no test: the largest of 21 means over 15 random pairs "
    "lies about 0.02 above their expectation. 0.05 is what counts as clear of chance everywhere here."
)
WHY_KEPT = (
    "Kept is more than half of the rise: last - (first + largest)/2 is 0 where exactly half is left. It is a "
    "difference and not a ratio, so that a run that never rose cannot blow it up."
)
HALF_TURN = 45.0
WHY_TURN = (
    "At 45 degrees half of the squared length of v1 has left the direction that it had after epoch 1; unrelated "
    "directions are at about 87 degrees. A rotation that all layers share turns v1 too and leaves continuity alone, so "
    "that this is asked beside the loss of continuity, not in its place."
)
SAME = 0.1
WHY_SAME = (
    "0.1 counts as the same: less than a seventh of the 0.71 between the two values that the paper sets against each "
    "other (0.93 and 0.22), and a tenth of the range of |cos|."
)
WHY_PAIRED = "Variants share initial noise and batch order at a seed, so the difference is taken seed by seed."
TRAINS = 0.8
WHY_TRAINS = "Guessing gets 0.1 and a linear classifier about 0.92: below 0.8 the net has not learned the task."
MOVED = 0.25
WHY_MOVED = (
    "Weights that have hardly moved say nothing. A change of rank one overtakes the largest singular value of the "
    "random initial matrix, 2 sigma sqrt(d) against |W0| = sigma d, at 2/sqrt(d) = 1/8; 0.25 is twice that."
)


def shown(statistic: Statistic) -> Part:
    """Return a part that decides nothing and shows a statistic to the reader."""
    return Part(statistic, SHOWN, "For the reader.")
