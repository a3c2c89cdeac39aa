"""Single values of a grid file, read by the type of the setting that they are given for.

YAML guesses types (`1_000`, `010`, `on`, a date); here nothing is guessed. The file's scalars arrive as the
text that was typed, and the setting says how to read it. From Python the values arrive as themselves. Each
class is an annotation for pydantic: `depth: Annotated[int, Int(ge=2)]`.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

INT_PATTERN = r"[-+]?(0|[1-9][0-9]*)"
FLOAT_PATTERN = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
BOOL_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
BOOL_PATTERN = "|".join("".join(f"[{c.upper()}{c}]" for c in word) for word in BOOL_WORDS)
NULL_WORDS = ("", "~", "null", "Null", "NULL")
MAX_INT = 2**31 - 1
NUM_SEEDS = 2**32
FLOAT32_MAX = float(np.finfo(np.float32).max)
FLOAT32_TINY = float(np.finfo(np.float32).smallest_normal)

Schema = dict[str, Any]


class Scalar:
    """How one kind of value is read: `parse` returns it in canonical form or raises ValueError.

    The message says what is wrong and, behind a semicolon, what to write instead. `schema()` is the JSON
    schema of what `parse` accepts.
    """

    def parse(self, value: Any) -> Any:
        """Return `value` in canonical form."""
        raise NotImplementedError

    def schema(self) -> Schema:
        """Return the JSON schema of what `parse` accepts."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: Any) -> Schema:
        return self.schema()


@dataclass(frozen=True)
class Int(Scalar):
    """An integer that looks like one, from `ge` to `le`.

    >>> Int().parse("16")
    16
    >>> Int().parse("1_000")
    Traceback (most recent call last):
    ValueError: 1_000 has an underscore; write 1000
    """

    ge: int = 1
    le: int = MAX_INT

    def parse(self, value: Any) -> int:
        """Return the integer."""
        value = _native(value)
        if isinstance(value, str):
            value = self._read(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{show(value)} is not an integer; {self._hint()}")
        if not self.ge <= value <= self.le:
            raise ValueError(f"{show(value)} is out of range; {self._hint()}")
        return value

    def schema(self) -> Schema:
        """Return the JSON schema: a number, or the text of one."""
        bounds = {"minimum": self.ge, "maximum": self.le}
        return {"type": ["integer", "string"], **bounds, "pattern": f"^{INT_PATTERN}$"}

    def _read(self, text: str) -> int:
        if not re.fullmatch(INT_PATTERN, text):
            raise ValueError(_not_integer(text, self._hint()))
        if len(text) > 30:  # Python itself refuses to convert more than 4300 digits
            raise ValueError(f"{_bare(text)} is out of range; {self._hint()}")
        return int(text)

    def _hint(self) -> str:
        return f"write an integer from {self.ge} to {self.le}"


@dataclass(frozen=True)
class Seed(Int):
    """A seed of `jax.random.key`, which looks at 32 bits only."""

    ge: int = 0
    le: int = NUM_SEEDS - 1

    def _hint(self) -> str:
        return f"write an integer from 0 to {self.le} (2**32 would alias: it gives the run of seed 0)"


@dataclass(frozen=True)
class Float(Scalar):
    """A finite number that float32 holds, within bounds; returned as a Python float.

    >>> [Float().parse(text) for text in ("1e-3", "1.0e-3", "1E-3", "1.e-3", "1")]
    [0.001, 0.001, 0.001, 0.001, 1.0]
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    _SIGNS: ClassVar[dict[str, str]] = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}

    def parse(self, value: Any) -> float:
        """Return the number."""
        value = _native(value)
        if isinstance(value, str):
            return self._check(self._read(value), value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{show(value)} is not a number; {self._hint()}")
        if abs(value) > FLOAT32_MAX:  # an int may be too large even for a Python float
            raise ValueError(f"{show(value)} becomes inf in float32; {self._hint()}")
        return self._check(float(value), show(value))

    def schema(self) -> Schema:
        """Return the JSON schema: a number, or the text of one."""
        keywords = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
        bounds = {keywords[name]: bound for name, bound in self._bounds().items()}
        return {"type": ["number", "string"], **bounds, "pattern": f"^({FLOAT_PATTERN})$"}

    def _read(self, text: str) -> float:
        if re.fullmatch(r"[-+]?\.?(nan|inf|infinity)", text, re.IGNORECASE):
            raise ValueError(f"{text} is not a finite number; {self._hint()}")
        if not re.fullmatch(FLOAT_PATTERN, text):
            raise ValueError(f"{show(text)} is not a number; {self._hint()}")
        number = float(text)
        if number == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
            raise ValueError(f"{_bare(text)} becomes 0 in float32; {self._hint()}")
        if math.isinf(number):
            raise ValueError(f"{_bare(text)} becomes inf in float32; {self._hint()}")
        return number

    def _check(self, number: float, shown: str) -> float:
        if math.isnan(number):
            raise ValueError(f"{shown} is not a finite number; {self._hint()}")
        if abs(number) > FLOAT32_MAX:
            raise ValueError(f"{shown} becomes inf in float32; {self._hint()}")
        if 0 < abs(number) < FLOAT32_TINY:
            raise ValueError(f"{shown} becomes 0 in float32, which devices flush; {self._hint()}")
        if not self._within(number):
            raise ValueError(f"{shown} is out of range; {self._hint()}")
        # What the program sees is rounded: 0.99999999 is below 1, its float32 is not.
        if not self._within(float(np.float32(number))):
            raise ValueError(f"{shown} is out of range, rounded to float32; {self._hint()}")
        return number + 0.0  # -0.0 becomes 0.0

    def _within(self, number: float) -> bool:
        return (
            (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
        )

    def _bounds(self) -> dict[str, float]:
        return {name: bound for name in self._SIGNS if (bound := getattr(self, name)) is not None}

    def _hint(self) -> str:
        bounds = " and ".join(f"{self._SIGNS[name]} {bound:g}" for name, bound in self._bounds().items())
        return f"write a number {bounds}" if bounds else "write a number such as 1e-3"


@dataclass(frozen=True)
class Bool(Scalar):
    """True or false, in any of the words YAML has had for them.

    >>> Bool().parse("on"), Bool().parse("No")
    (True, False)
    """

    def parse(self, value: Any) -> bool:
        """Return the boolean."""
        value = _truth(_native(value))
        if not isinstance(value, bool):
            raise ValueError(f"{show(value)} is not true or false; write true or false")
        return value

    def schema(self) -> Schema:
        """Return the JSON schema: a boolean, or the word for one."""
        return {"type": ["boolean", "string"], "pattern": f"^({BOOL_PATTERN})$"}


@dataclass(frozen=True)
class Coefficient(Scalar):
    """A number in [0, 1] that is also a switch: true is 1, false is 0, and 1 and 0 are returned as these.

    >>> [Coefficient().parse(value) for value in ("on", 1.0, 0, "0.5")]
    [True, True, False, 0.5]
    """

    def parse(self, value: Any) -> bool | float:
        """Return True, False or a number strictly between 0 and 1."""
        value = _truth(_native(value))
        if isinstance(value, bool):
            return value
        try:
            number = Float(ge=0, le=1).parse(value)
        except ValueError as error:
            message = str(error).rpartition(";")[0]
            raise ValueError(f"{message}; write true, false or a number from 0 to 1") from None
        rounded = float(np.float32(number))
        return bool(rounded) if rounded in (0.0, 1.0) else number

    def schema(self) -> Schema:
        """Return the JSON schema: a boolean, a number, or the text of either."""
        pattern = f"^({BOOL_PATTERN}|{FLOAT_PATTERN})$"
        return {"type": ["boolean", "number", "string"], "minimum": 0, "maximum": 1, "pattern": pattern}


@dataclass(frozen=True)
class Choice(Scalar):
    """One of `names`; `nothing` is the name to suggest to those who write None, null or ~.

    >>> Choice(("relu", "identity")).parse("rleu")
    Traceback (most recent call last):
    ValueError: 'rleu' is unknown; did you mean relu?
    """

    names: tuple[str, ...]
    nothing: str | None = None

    def parse(self, value: Any) -> str:
        """Return the name."""
        value = _native(value)
        if isinstance(value, str) and value in self.names:
            return str(value)
        if self.nothing and (value is None or (isinstance(value, str) and _is_nothing(value))):
            raise ValueError(f"{show(value)} is no name; write {self.nothing}")
        raise ValueError(f"{show(value)} is unknown; {did_you_mean(value, self.names)}")

    def schema(self) -> Schema:
        """Return the JSON schema: the names."""
        return {"enum": list(self.names)}


@dataclass(frozen=True)
class Text(Scalar):
    """Text as it stands, all of which the regular expression `pattern` matches; `hint` is the advice."""

    pattern: str = r"[\s\S]*"
    hint: str = "write text"

    def parse(self, value: Any) -> str:
        """Return the text."""
        value = _native(value)
        if not isinstance(value, str):
            raise ValueError(f"{show(value)} is not text; {self.hint}")
        if not value.isascii() and re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{show(value)} has half of a surrogate pair; write the character itself")
        if not re.fullmatch(self.pattern, value):
            raise ValueError(f"{show(value)} does not do here; {self.hint}")
        return str(value)

    def schema(self) -> Schema:
        """Return the JSON schema: a string; a bare number or word in the file is text too."""
        return {"type": ["string", "number", "boolean"], "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True)
class Either(Scalar):
    """One of `words` as it stands, or else what `other` reads.

    >>> Either(("epoch",), Int()).parse("epoch"), Either(("epoch",), Int()).parse("200")
    ('epoch', 200)
    """

    words: tuple[str, ...]
    other: Scalar

    def parse(self, value: Any) -> Any:
        """Return the word, or what `other` reads."""
        if isinstance(value, str) and value in self.words:
            return str(value)
        try:
            return self.other.parse(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {', '.join(self.words)}") from None

    def schema(self) -> Schema:
        """Return the JSON schema: the words, or the other's."""
        return {"anyOf": [{"enum": list(self.words)}, self.other.schema()]}


@dataclass(frozen=True)
class Maybe(Scalar):
    """What `other` reads, or nothing: None, or null, ~ or an empty value in the file."""

    other: Scalar

    def parse(self, value: Any) -> Any:
        """Return None or what `other` reads."""
        if value is None or (isinstance(value, str) and value in NULL_WORDS):
            return None
        return self.other.parse(value)

    def schema(self) -> Schema:
        """Return the JSON schema: null in any spelling, or the other's."""
        return {"anyOf": [self.other.schema(), {"enum": [None, *NULL_WORDS]}]}


def show(value: Any) -> str:
    """Return a short form of any value, for use in a one-line message."""
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, str) and not value:
        return "an empty value"
    shown = _digits(value) if isinstance(value, int) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:40]}...{shown[-10:]}"


def did_you_mean(value: Any, names: Iterable[str]) -> str:
    """Return advice for an unknown name: the known one that is close, or all of them."""
    names = list(names)
    close = close_name(value, names)
    return f"did you mean {close}?" if close else f"write one of {', '.join(names)}"


def close_name(value: Any, names: Iterable[str]) -> str | None:
    """Return the name that someone who wrote `value` most likely meant, if one is close."""
    folded = {name.casefold(): name for name in names}
    close = get_close_matches(str(value)[:100].casefold(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def _native(value: Any) -> Any:
    """Return a NumPy scalar as the Python number that it prints as: np.float32(0.1) is 0.1."""
    if isinstance(value, np.floating):
        return float(str(value))
    return value.item() if isinstance(value, np.generic) else value


def _truth(value: Any) -> Any:
    return BOOL_WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _is_nothing(text: str) -> bool:
    return text.lower() in ("none", *NULL_WORDS)


def _bare(text: str) -> str:
    return show(text).strip("'")


def _digits(value: int) -> str:
    # str() refuses integers of more than 4300 digits.
    return str(value) if value.bit_length() < 1000 else f"an integer of {value.bit_length()} bits"


def _not_integer(text: str, hint: str) -> str:
    """Say why a text that some YAML reader would take for an integer is none here."""
    shown = _bare(text)
    if re.fullmatch(r"[-+]?0[0-9]+", text):
        return f"{shown} has a leading zero (octal to some readers); write {shown.lstrip('-+0') or 0}"
    if re.fullmatch(r"[-+]?[0-9]+(_[0-9]*)+", text):
        return f"{shown} has an underscore; write {shown.replace('_', '')}"
    if re.fullmatch(r"[-+]?[0-9]+(:[0-9]+)+", text):
        return f"{shown} is a time of day; {hint}"
    if re.fullmatch(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*", text):
        return f"{shown} is a date; {hint}"
    return f"{show(text)} is not an integer; {hint}"
