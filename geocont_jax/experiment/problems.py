"""What is wrong with a grid, where, and what to write instead: pydantic's errors turned into one line."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from geocont_jax.errors import InputError
from geocont_jax.experiment.scalars import show

Path = tuple[str | int, ...]
"""Keys and indices from the top of a grid to a value in it."""


def problem(message: str, *path: str | int) -> ValidationError:
    """Return the error that says `message` about the place `path` in the value under validation."""
    error = PydanticCustomError("problem", "{message}", {"message": message})
    return ValidationError.from_exception_data("problem", [InitErrorDetails(type=error, loc=path, input=None)])


def one_line(where: str, place: str, message: str) -> InputError:
    """Return the error that the user sees: where it stands, which setting it is, what to do."""
    text = ": ".join(part for part in (where, place, message) if part)
    # What the user typed may hold line breaks and lone surrogates; the message must not.
    return InputError(" ".join(text.split()).encode("utf-8", "backslashreplace").decode())


def dotted_place(path: Iterable[str | int]) -> str:
    """Return a path as it is read aloud.

    >>> dotted_place(("sweep", "model.width", 1))
    'sweep.model.width[1]'
    """
    parts = [f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in path]
    return "".join(parts).removeprefix(".")


def first_problem(error: ValidationError, unknown_key: Callable[[Path], str]) -> tuple[Path, bool, str]:
    """Return the path of the most telling error, whether it is about the key itself, and its message.

    `unknown_key(path)` is the advice for a key that no setting has.
    """
    # A mistyped key is often also a missing one: say the cause, not the consequence.
    details = min(error.errors(include_url=False), key=lambda found: found["type"] != "extra_forbidden")
    path = tuple(details["loc"])
    if details["type"] == "extra_forbidden":
        return path, True, unknown_key(path)
    return path, False, _message(details)


def _message(details: ErrorDetails) -> str:
    given: Any = details["input"]
    match details["type"]:
        case "problem":
            return details["msg"]
        case "value_error":
            return str(details["ctx"]["error"])
        case "missing":
            return f"is missing; write {details['loc'][-1]}: ... at the top level"
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"{show(given)} where lines of `key: value` belong{missing_space(given)}"
        case "tuple_type" | "list_type":
            return f"{show(given)} where a list belongs; write [{given if _is_plain(given) else '...'}]"
        case "too_short":
            return "the list is empty; give at least one value, or leave it out"
    return f"{details['msg']}; see sweeps/grid.schema.json"


def missing_space(value: Any) -> str:
    """Return the advice to write `key: value` for a text that looks like `key:value`."""
    key, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if colon and rest[:1].strip() and key.replace("_", "a").isalnum():
        return f"; write a space behind the colon, {key[:40]}: {rest.split()[0][:40]}"
    return "; see sweeps/quickstart.yaml for an example"


def _key(key: str) -> str:
    shown = key if key.isprintable() and key else repr(key)
    return shown if len(shown) <= 60 else f"{shown[:50]}..."


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and 0 < len(str(value)) <= 40
