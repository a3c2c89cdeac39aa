import doctest

import pytest

from geocont_jax.analysis import published
from geocont_jax.analysis.published import PUBLISHED, TOY_STUDY, published_entry

TOY = {**TOY_STUDY, "name": "mnist"}


def published_value(metric, settings):
    entry = published_entry(metric, settings)
    return None if entry is None else entry.value


def resolved(**settings):
    return {**TOY, "activation_scale": 1.0, "learning_rate": 1e-3, **settings}


def test_examples():
    assert doctest.testmod(published).failed == 0


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: f"{entry.metric} {entry.conditions}")
def test_every_value_is_found_by_its_own_settings(entry):
    assert published_value(entry.metric, resolved(**entry.conditions)) == entry.value
    assert published_value(entry.metric, entry.conditions) == entry.value


@pytest.mark.parametrize(
    ("metric", "settings", "value"),
    [
        ("weight_v1_cosine", {"residual": True, "activation": "identity"}, 0.22),
        ("weight_v1_cosine", {"residual": True, "activation": "radial"}, 0.22),
        ("gradient_v1_cosine", {"residual": True, "activation": "identity"}, 0.93),
        ("gradient_v1_cosine", {"residual": False, "activation": "gelu"}, 0.05),
        ("weight_v_alignment", {"residual": True, "activation": "relu"}, 0.249),
        ("weight_v_alignment", {"residual": True, "activation": "identity", "norm": "layernorm"}, 0.303),
        ("weight_v1_cosine", {"residual": True, "activation": "relu"}, None),
        ("weight_v1_cosine", {"residual": 0.5, "activation": "identity"}, None),
        ("weight_v1_cosine", {"residual": 1.0, "activation": "identity"}, 0.22),
        ("test_accuracy", {"residual": True, "activation": "identity"}, None),
    ],
)
def test_values_of_the_paper(metric, settings, value):
    assert published_value(metric, resolved(**settings)) == value


@pytest.mark.parametrize(
    "other",
    [{"width": 64}, {"depth": 8}, {"init_scale": 0.3}, {"norm": "layernorm"}, {"optimizer": "sgd"},
     {"name": "cifar10"}, {"name": "fashion_mnist"}, {"activation_scale": 16.0}],
    ids=str,
)  # fmt: skip
def test_other_studies_are_not_compared(other):
    settings = resolved(residual=True, activation="radial")
    assert published_value("weight_v1_cosine", settings) == 0.22
    assert published_value("weight_v1_cosine", settings | other) is None


def test_a_run_that_does_not_say_what_it_is_is_not_compared():
    assert published_value("gradient_v1_cosine", {}) is None
    assert published_value("gradient_v1_cosine", {"activation": "identity"}) is None
    assert published_value("weight_v1_cosine", {"residual": True}) is None


def test_no_two_entries_answer_the_same_question():
    questions = [(entry.metric, tuple(sorted(entry.conditions.items()))) for entry in PUBLISHED]
    assert len(set(questions)) == len(PUBLISHED)


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: f"{entry.metric} {entry.conditions}")
def test_the_value_has_the_digits_that_it_says(entry):
    assert float(f"{entry.value:.{entry.decimals}f}") == entry.value
    assert published_entry(entry.metric, resolved(**entry.conditions)) is entry
