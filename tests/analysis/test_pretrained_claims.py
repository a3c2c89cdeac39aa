"""Claims about pretrained models: the model is the unit, chance is taken off, and verdicts go both ways."""

import numpy as np
import pytest

from geocont_jax.analysis.claims.judge import judge_claims
from geocont_jax.analysis.claims.paper1_pretrained import PRETRAINED_CLAIMS
from geocont_jax.analysis.pretrained_records import as_runs
from geocont_jax.geometry.null import chance_level
from tests.analysis.checkpoints import checkpoint

READS, WRITES, LOW = (0.7, 0.1), (0.1, 0.7), (0.11, 0.1)
AS_CLAIMED = {"q": READS, "k": READS, "v": LOW, "o": WRITES, "gate": READS, "up": READS, "down": WRITES}


def models(cosines, count=3, **kwargs):
    shifted = [{name: (a - 0.01 * i, b - 0.005 * i) for name, (a, b) in cosines.items()} for i in range(count)]
    return [checkpoint(f"model-{i}", cosines=one, num_layers=4 + i, **kwargs) for i, one in enumerate(shifted)]


def verdicts(datasets):
    judged = judge_claims(PRETRAINED_CLAIMS, {"pretrained": as_runs(datasets)})
    return {one.claim.id: str(one.verdict) for one in judged}


def test_models_that_are_as_the_paper_says_support_it():
    found = verdicts(models(AS_CLAIMED))
    assert {found[name] for name in found if name.startswith("pretrained-")} == {"supported"}


@pytest.mark.parametrize(
    ("claim", "change", "kwargs"),
    [
        ("pretrained-readers", {"k": (0.12, 0.1)}, {}),
        ("pretrained-writers", {"o": (0.1, 0.12)}, {}),
        ("pretrained-sides", {"up": (0.1, 0.7)}, {}),
        ("pretrained-value-low", {"v": (0.6, 0.1)}, {}),
        ("pretrained-not-similar", {}, {"matrix_cosine": 0.5}),
    ],
)
def test_models_that_are_not_refute_it(claim, change, kwargs):
    assert verdicts(models(AS_CLAIMED | change, **kwargs))[claim] == "refuted"


def test_one_model_decides_nothing_about_models():
    found = verdicts(models(AS_CLAIMED, count=1))
    assert {found[name] for name in found if name.startswith("pretrained-")} == {"undecided"}


@pytest.mark.parametrize(("q", "verdict"), [(0.824, "supported"), (0.79, "refuted")])
def test_a_published_value_is_read_off_the_one_model_that_it_is_of(q, verdict):
    llama = checkpoint("Llama-3.1-8B", cosines=AS_CLAIMED | {"q": (q, 0.1)})
    assert verdicts([*models(AS_CLAIMED), llama])["value-llama-q"] == verdict
    assert verdicts(models(AS_CLAIMED))["value-llama-q"] == "undecided"


def test_chance_is_taken_off_in_each_models_own_dimension():
    runs = as_runs([checkpoint("a", dimension=64), checkpoint("b", dimension=576)])
    excess = runs["q_v1_excess"].values[:, 0, 0]
    np.testing.assert_allclose(excess, [0.8 - chance_level(64), 0.8 - chance_level(576)])


def test_a_model_without_a_projection_has_no_value_for_it():
    encoder = checkpoint("encoder", num_layers=3, cosines={"q": (0.5, 0.1)})
    runs = as_runs([checkpoint("decoder"), encoder])
    assert runs["model"].values.tolist() == ["decoder", "encoder"]
    assert np.isnan(runs["gate_v1_cosine"].values[1]).all()
    assert np.isfinite(runs["q_v1_cosine"].values[1, 0, :2]).all()
