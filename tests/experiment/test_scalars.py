"""Values are read by the type of the setting, never by what they look like."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geocont_jax.experiment.scalars import (
    FLOAT32_MAX,
    FLOAT32_TINY,
    Bool,
    Choice,
    Coefficient,
    Either,
    Float,
    Int,
    Maybe,
    Scalar,
    Seed,
    Text,
    did_you_mean,
    show,
)


@pytest.mark.parametrize("value", ["1e-3", "1.0e-3", "1E-3", "1.e-3", "0.001", ".001", "+1e-3", 0.001])
def test_float_reads_every_spelling_of_a_thousandth(value: object) -> None:
    assert Float().parse(value) == 0.001


@pytest.mark.parametrize(
    ("value", "expected"), [(np.float32(0.1), 0.1), (np.float64(0.1), 0.1), (np.int64(2), 2.0), (3, 3.0)]
)
def test_float_reads_numpy_and_python_numbers_as_they_print(value: object, expected: float) -> None:
    assert Float().parse(value) == expected
    assert type(Float().parse(value)) is float


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (".nan", "not a finite number"),
        ("nan", "not a finite number"),
        ("-.INF", "not a finite number"),
        (math.nan, "not a finite number"),
        (math.inf, "becomes inf"),
        ("1e39", "becomes inf"),
        ("1e999", "becomes inf"),
        (10**400, "becomes inf"),
        ("1e-46", "becomes 0"),
        ("1e-999", "becomes 0"),
        (5e-324, "becomes 0"),
        (FLOAT32_TINY / 2, "becomes 0"),
        (True, "not a number"),
        (None, "not a number"),
        ("0x10", "not a number"),
        ("1_0.5", "not a number"),
        ("", "not a number"),
        ([1.0], "a list is not a number"),
    ],
)
def test_float_refuses_what_float32_cannot_hold(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        Float().parse(value)
    assert "; write a number" in str(caught.value)


def test_float_bounds_hold_for_the_rounded_value_too() -> None:
    below_one = 0.99999999
    assert below_one < 1
    with pytest.raises(ValueError, match="rounded to float32"):
        Float(lt=1).parse(below_one)
    assert Float(lt=1).parse(0.9999) == 0.9999


def test_float_has_one_zero() -> None:
    assert math.copysign(1, Float().parse("-0.0")) == 1


@given(st.floats(-FLOAT32_MAX, FLOAT32_MAX).filter(lambda x: x == 0 or abs(x) >= FLOAT32_TINY))
def test_float_round_trips_through_repr(number: float) -> None:
    assert Float().parse(repr(number)) == number


@pytest.mark.parametrize(("value", "expected"), [("16", 16), ("+2", 2), (16, 16), (np.int32(16), 16)])
def test_int_reads_integers(value: object, expected: int) -> None:
    assert Int().parse(value) == expected
    assert type(Int().parse(value)) is int


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("010", "leading zero .* write 10"),
        ("08", "leading zero .* write 8"),
        ("1_000", "underscore; write 1000"),
        ("12:30:45", "time of day"),
        ("2001-12-14", "date"),
        ("2001-12-14t21:59:43.10-05:00", "date"),
        ("16.0", "not an integer"),
        ("1e3", "not an integer"),
        ("0x10", "not an integer"),
        ("0o10", "not an integer"),
        (".nan", "not an integer"),
        ("٣", "not an integer"),
        ("true", "not an integer"),
        (True, "true is not an integer"),
        (16.0, "not an integer"),
        (None, "nothing is not an integer"),
        ("0", "out of range"),
        ("9" * 26, "out of range"),
        ("9" * 5000, "out of range"),
        pytest.param(10**5000, "out of range", id="5001 digits"),
        (2**31, "out of range"),
    ],
)
def test_int_must_look_like_one(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        Int().parse(value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seed", ["0", 4294967295, np.uint32(7)])
def test_seed_covers_32_bits(seed: object) -> None:
    assert 0 <= Seed().parse(seed) < 2**32


@pytest.mark.parametrize("seed", [2**32, -1, "4294967296", True, 1.0])
def test_seed_refuses_aliases(seed: object) -> None:
    with pytest.raises(ValueError, match="alias"):
        Seed().parse(seed)


@pytest.mark.parametrize("word", ["true", "True", "ON", "yes", True, np.True_])
def test_bool_reads_words_of_all_yaml_versions(word: object) -> None:
    assert Bool().parse(word) is True


@pytest.mark.parametrize("word", ["y", "1", 1, 0.0, "", None])
def test_bool_refuses_the_rest(word: object) -> None:
    with pytest.raises(ValueError, match="write true or false"):
        Bool().parse(word)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("on", True),
        ("no", False),
        (1, True),
        ("1.0", True),
        (0.0, False),
        ("-0", False),
        ("0.5", 0.5),
        (0.99999999999, True),
        (np.float32(0.1), 0.1),
        (np.False_, False),
    ],
)
def test_coefficient_has_one_form_for_each_value(value: object, expected: bool | float) -> None:
    parsed = Coefficient().parse(value)
    assert parsed == expected
    assert type(parsed) is type(expected)


@pytest.mark.parametrize("value", ["1.5", -0.1, "maybe", None, ".nan", "1e-50"])
def test_coefficient_refuses_the_rest(value: object) -> None:
    with pytest.raises(ValueError, match="write true, false or a number from 0 to 1"):
        Coefficient().parse(value)


@pytest.mark.parametrize("word", ["None", "none", "null", "NULL", "~", "", None])
def test_no_activation_is_called_identity(word: object) -> None:
    with pytest.raises(ValueError, match="write identity"):
        Choice(("relu", "identity"), nothing="identity").parse(word)


@pytest.mark.parametrize(("word", "meant"), [("rleu", "relu"), ("ReLU", "relu"), ("layer_norm", "layernorm")])
def test_choice_says_what_may_have_been_meant(word: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {meant}"):
        Choice(("relu", "layernorm")).parse(word)


def test_choice_lists_names_where_nothing_is_close() -> None:
    assert did_you_mean("xyz", ["relu", "gelu"]) == "write one of relu, gelu"


@pytest.mark.parametrize("nothing", ["", "~", "null", "Null", "NULL", None])
def test_maybe_reads_nothing(nothing: object) -> None:
    assert Maybe(Text()).parse(nothing) is None


def test_either_keeps_the_word_and_reads_the_rest() -> None:
    every = Either(("epoch",), Int())
    assert every.parse("epoch") == "epoch"
    assert every.parse("200") == 200
    with pytest.raises(ValueError, match="or epoch"):
        every.parse("epochs")


HARD_TO_SHOW = ["x" * 1000, 10**9999, "a\nb", b"\xff", 1.5, [1], {}, (), None, object()]


@pytest.mark.parametrize("value", HARD_TO_SHOW, ids=range(len(HARD_TO_SHOW)))
def test_values_are_shown_short_and_on_one_line(value: object) -> None:
    assert len(show(value)) <= 60
    assert "\n" not in show(value)


SCALARS = (Int(), Seed(), Float(), Bool(), Coefficient(), Choice(("a",), "a"), Text("a+"), Maybe(Int()))


@given(
    st.sampled_from(SCALARS),
    st.text() | st.integers() | st.floats() | st.booleans() | st.none() | st.lists(st.integers()) | st.binary(),
)
def test_any_value_is_read_or_refused_with_advice(scalar: Scalar, value: object) -> None:
    try:
        parsed = scalar.parse(value)
    except ValueError as error:
        advice = str(error).partition("; ")[2]
    else:
        advice = "none needed"
        assert scalar.parse(parsed) == parsed
    assert advice
