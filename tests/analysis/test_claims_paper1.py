"""Every claim on paper 1 can go every way: supported, refuted, undecided."""

import numpy as np
import pytest

from geocont_jax.analysis.claims.judge import judge
from geocont_jax.analysis.claims.paper1 import TOY_CLAIMS
from geocont_jax.analysis.claims.paper1_keeping import OPTIMIZER_SETTINGS
from geocont_jax.analysis.claims.render import scoreboard
from geocont_jax.analysis.claims.rules import PaperValue, Shown, Verdict
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.sections import MeasureSection
from geocont_jax.experiment.settings import settings_by_name
from geocont_jax.geometry.null import NULLS
from geocont_jax.training.measure import fields_of
from tests.analysis.claim_records import COLLAPSES, METRICS, RISES, changed, constant, mixed, paper_world, store
from tests.test_examples import ROOT

BY_ID = {claim.id: claim for claim in TOY_CLAIMS}
SWEEPS = sorted({claim.sweep.name for claim in TOY_CLAIMS})

RES, NORES = {"residual": True, "norm": "none"}, {"residual": False}
IDENTITY, RELU, GELU, SILU, TANH, RADIAL = (
    {**RES, "activation": name} for name in ("identity", "relu", "gelu", "silu", "tanh", "radial")
)
LN, RMS = ({"activation": "identity", "norm": name} for name in ("layernorm", "rmsnorm"))
LATE = (0.05, 0.05, 0.05, 0.1, 0.22)

# For each claim the change of the world in which everything holds that makes it false.
AGAINST = {
    "residual-gradient-at-start": (RELU, {"gradient_v1_cosine": constant(0.05)}),
    "no-residual-gradient-identity": ({**NORES, "activation": "identity"}, {"gradient_v1_cosine": constant(0.4)}),
    "no-residual-gradient-relu": ({**NORES, "activation": "relu"}, {"gradient_v1_cosine": constant(0.4)}),
    "no-residual-weights-identity": ({**NORES, "activation": "identity"}, {"weight_v1_cosine": RISES}),
    "no-residual-weights-relu": ({**NORES, "activation": "relu"}, {"weight_v1_cosine": RISES}),
    "no-residual-weights-where-it-trains": (NORES, {"weight_v1_cosine": RISES}),
    "identity-gradient": (IDENTITY, {"coherence_gap": constant(0.0)}),
    "identity-drift-paper-scale": (IDENTITY, {"weight_v1_cosine": LATE}),
    "identity-drift-small-scale": (IDENTITY, {"weight_v1_drift": constant(5.0)}),
    "relu-no-drift": (RELU, {"weight_v1_cosine": COLLAPSES}),
    "radial-fails-like-identity": (RADIAL, {"weight_v1_cosine": RISES}),
    "radial-drifts-like-identity": (RADIAL, {"weight_v1_cosine": RISES}),
    "radial-control-is-nonlinear": (RADIAL, {"preactivation_norm": constant(15.0)}),
    "radial-nonlinear-small-scale": ({**RADIAL, "activation_scale": 16.0, "init_scale": 0.3},
                                     {"weight_v1_cosine": RISES}),
    "radial-nonlinear-paper-scale": ({**RADIAL, "activation_scale": 16.0, "init_scale": 1.0},
                                     {"weight_v1_cosine": RISES}),
    "elementwise-keeps": (GELU, {"weight_v1_cosine": COLLAPSES}),
    "elementwise-keeps-others": (TANH, {"weight_v1_cosine": COLLAPSES}),
    "elementwise-concentrates": (SILU, {"weight_v_overlap16": constant(0.95)}),
    "layernorm-keeps": (LN, {"weight_v1_cosine": COLLAPSES}),
    "layernorm-spreads": (LN, {"weight_v_overlap16": constant(0.05)}),
    "alignment-order": (LN, {"weight_v_alignment": constant(0.2)}),
    "activation-wins": ({"activation": "relu", "norm": "layernorm"},
                        {"weight_v_overlap1": constant(0.5), "weight_v_overlap16": constant(0.4)}),
    "equivariant-norm-fails": (RMS, {"weight_v1_cosine": RISES}),
    "weights-follow-once-moved": (RELU, {"coherence_gap": constant(0.4)}),
    "weights-follow-not-before": (GELU, {"coherence_gap": constant(0.02)}),
    "weights-follow-small-scales": ({**RELU, "init_scale": 0.1}, {"coherence_gap": constant(0.5)}),
    "larger-init-delays": ({**RELU, "init_scale": 1.0}, {"coherence_gap": constant(-0.1)}),
    "imprinted": (SILU, {"coherence_gap": constant(0.4)}),
    "identity-gap-small-scale": (IDENTITY, {"coherence_gap": constant(0.0)}),
    **{f"optimizer-{name}": ({**RELU, **settings}, {"weight_v1_cosine": constant(0.05)})
       for name, settings in OPTIMIZER_SETTINGS.items()},
    **{f"equivariant-{name}": ({**IDENTITY, **OPTIMIZER_SETTINGS[name]}, {"weight_v1_cosine": RISES})
       for name in ("sgd-momentum", "novograd", "muon")},
    "value-gradient-identity": (IDENTITY, {"gradient_v1_cosine": constant(0.8)}),
    "value-gradient-no-residual": ({**NORES, "activation": "identity"}, {"gradient_v1_cosine": constant(0.3)}),
    "value-weight-identity": (IDENTITY, {"weight_v1_cosine": constant(0.5)}),
    "value-weight-radial": (RADIAL, {"weight_v1_cosine": constant(0.5)}),
    "value-alignment-relu": (RELU, {"weight_v_alignment": constant(0.1)}),
    "value-alignment-layernorm": (LN, {"weight_v_alignment": constant(0.1)}),
}  # fmt: skip

# For each claim with premises, changes that make each of them false.
WITHOUT_PREMISE = {
    "no-residual-weights-where-it-trains": [(NORES, {"test_accuracy": constant(0.3)})],
    "radial-nonlinear-small-scale": [(RADIAL, {"preactivation_norm": constant(40.0)}),
                                     (IDENTITY, {"weight_v1_cosine": RISES})],
    "radial-nonlinear-paper-scale": [(RADIAL, {"preactivation_norm": constant(40.0)})],
    "activation-wins": [(LN, {"weight_v_overlap1": constant(0.9), "weight_v_overlap16": constant(0.1)})],
    **{f"optimizer-{name}": [({**RELU, **settings}, {"test_accuracy": constant(0.3)}),
                             ({**RELU, **settings}, {"update_ratio": constant(0.05)})]
       for name, settings in OPTIMIZER_SETTINGS.items()},
    **{f"equivariant-{name}": [({**RADIAL, **OPTIMIZER_SETTINGS[name]}, {"test_accuracy": constant(0.3)}),
                               ({**IDENTITY, **OPTIMIZER_SETTINGS[name]}, {"update_ratio": constant(0.05)})]
       for name in ("sgd-momentum", "novograd", "muon")},
}  # fmt: skip


@pytest.fixture(scope="module")
def paper():
    return {name: store(name, paper_world) for name in SWEEPS}


def against(id, seeds=range(5), world=paper_world):
    return store(BY_ID[id].sweep.name, changed(world, AGAINST[id]), seeds)


def test_every_claim_has_a_world_against_it_and_its_own_name():
    assert set(AGAINST) == set(BY_ID)
    assert len(BY_ID) == len(TOY_CLAIMS)
    assert {id for id, claim in BY_ID.items() if any(part.premise for part in claim.parts)} == set(WITHOUT_PREMISE)


@pytest.mark.parametrize("id", BY_ID)
def test_supported_where_it_holds(id, paper):
    found = judge(BY_ID[id], paper[BY_ID[id].sweep.name])
    assert found.verdict == Verdict.SUPPORTED, [(one.part.statistic.words, one.outcome) for one in found.parts]


@pytest.mark.parametrize("id", BY_ID)
def test_refuted_where_the_opposite_holds(id):
    assert judge(BY_ID[id], against(id)).verdict == Verdict.REFUTED


@pytest.mark.parametrize("id", BY_ID)
def test_undecided_where_seeds_disagree(id):
    world = mixed(paper_world, changed(paper_world, AGAINST[id]))
    found = judge(BY_ID[id], store(BY_ID[id].sweep.name, world, range(4)))
    assert found.verdict == Verdict.UNDECIDED, [(one.part.statistic.words, one.outcome) for one in found.parts]


@pytest.mark.parametrize("id", BY_ID)
@pytest.mark.parametrize("holds", [True, False])
def test_one_seed_never_decides(id, holds):
    world = paper_world if holds else changed(paper_world, AGAINST[id])
    found = judge(BY_ID[id], store(BY_ID[id].sweep.name, world, seeds=(3,)))
    assert found.verdict == Verdict.UNDECIDED
    assert "one seed has no interval" in found.pivot.outcome.note


@pytest.mark.parametrize("id", BY_ID)
def test_undecided_without_its_sweep(id):
    claim = BY_ID[id]
    found = judge(claim, None)
    assert found.verdict == Verdict.UNDECIDED
    row = next(line for line in scoreboard([]).splitlines() if line.startswith(f"| [{id}]"))
    assert f"{claim.sweep.name} is missing: `python -m geocont_jax.sweep sweeps/{claim.sweep.name}.yaml`" in row


@pytest.mark.parametrize("id", WITHOUT_PREMISE)
def test_undecided_where_a_premise_is_not_met(id):
    for edit in WITHOUT_PREMISE[id]:
        for world in (paper_world, changed(paper_world, AGAINST[id])):
            found = judge(BY_ID[id], store(BY_ID[id].sweep.name, changed(world, edit)))
            assert found.verdict == Verdict.UNDECIDED
            assert found.pivot.part.premise
            assert found.pivot.outcome.verdict == Verdict.REFUTED


def random_world(number):
    """Return a world of flat, rising and arbitrary curves, the same for all seeds."""

    def curves(settings, seed):
        text = repr(sorted(settings.items(), key=str))
        rng = np.random.default_rng([number, *text.encode()])
        found = {metric: tuple(rng.uniform(0, 1, 5)) for metric in METRICS}
        if rng.uniform() < 0.4:
            found["weight_v1_cosine"] = constant(rng.choice([0.05, 0.9]))
        found["gradient_v1_cosine"] = constant(rng.choice([0.05, 0.9]))
        found["coherence_gap"] = tuple(rng.uniform(-0.2, 0.4, 5))
        found["update_ratio"] = (0.0, *np.sort(rng.uniform(0, rng.choice([0.2, 1.5]), 4)))
        found["weight_v1_drift"] = tuple(rng.uniform(0, 90, 5))
        found["preactivation_norm"] = tuple(rng.uniform(0, 60, 5))
        return found

    return curves


def wanted(part):
    """Return the verdicts that a part must be able to give."""
    if isinstance(part.rule, Shown):
        return {Verdict.SHOWN}
    # Random numbers seldom are the paper's; the worlds above are.
    return {Verdict.REFUTED} if isinstance(part.rule, PaperValue) else {Verdict.SUPPORTED, Verdict.REFUTED}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_no_part_is_sure_to_go_one_way(name):
    claims = [claim for claim in TOY_CLAIMS if claim.sweep.name == name]
    unseen = {(claim.id, place): wanted(part) for claim in claims for place, part in enumerate(claim.parts)}
    for number in range(60):
        dataset = store(name, random_world(number), range(3), noise=0.001)
        for claim in claims:
            if any(unseen.get((claim.id, place)) for place in range(len(claim.parts))):
                for place, one in enumerate(judge(claim, dataset).parts):
                    unseen[claim.id, place].discard(one.outcome.verdict)
    left = {f"{id} {BY_ID[id].parts[place].statistic.words}": kinds for (id, place), kinds in unseen.items() if kinds}
    assert not left


@pytest.mark.parametrize("name", SWEEPS)
def test_the_sweep_has_the_runs_that_claims_ask_for(name):
    path = ROOT / "sweeps" / f"{name}.yaml"
    if not path.exists():
        pytest.skip(f"{path.name} is not written yet")
    runs = [(settings_by_name(run.settings), run.seed) for run in expand(load_grid(path))]
    for claim in TOY_CLAIMS:
        for term in (term for part in claim.parts for term in part.statistic.terms if claim.sweep.name == name):
            wanted = {**claim.sweep.settings, **term.variant.settings}
            seeds = [seed for settings, seed in runs if {name: settings.get(name) for name in wanted} == wanted]
            assert len(seeds) >= 3, (claim.id, term.variant.name, wanted)
            assert len(set(seeds)) == len(seeds), (claim.id, term.variant.name)


def test_a_sweep_records_what_claims_read_and_its_null():
    fields = fields_of(MeasureSection(families="all"))
    for claim in TOY_CLAIMS:
        for part in claim.parts:
            for term in part.statistic.terms:
                assert set(term.measure.needs) <= set(fields), claim.id
            if getattr(part.rule, "from_chance", False):
                (term,) = part.statistic.terms
                assert fields[term.measure.metric].null in NULLS, claim.id


def test_the_reasons_are_given():
    for claim in TOY_CLAIMS:
        assert claim.text.endswith((".", ")")), claim.id
        assert claim.source, claim.id
        assert claim.via, claim.id
        assert all(part.why for part in claim.parts), claim.id
