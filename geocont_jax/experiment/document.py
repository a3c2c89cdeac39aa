"""A grid file as text with places: YAML without its guesses about types.

The YAML events are read directly, so that every scalar stays the text that was typed, and every key and value
knows the line and column it stands at.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from geocont_jax.experiment.problems import Path, dotted_place, missing_space, one_line
from geocont_jax.experiment.scalars import show

MAX_DEPTH = 8
HINTS = {
    r"'\t'": "a tab in the indentation; indent with spaces",
    "could not find expected ':'": "a line without `key: value`; write a space behind the colon",
    "mapping values are not allowed here": "a second colon in one value; put text that holds ': ' in quotes",
    "found undefined alias": "an alias without its anchor; write the value out",
}

Where = Callable[[int, int], str]
"""Turns a line and a column, counted from 0, into the place that the user is told."""


@dataclass
class Document:
    """A tree of dicts, lists and text, with the place of each value and each key of it."""

    name: str
    tree: Any
    values: dict[Path, str] = field(default_factory=dict)
    keys: dict[Path, str] = field(default_factory=dict)

    def where(self, path: Path, of_key: bool = False) -> str:
        """Return the place of a value (or of its key), or of what it is in where it has none of its own."""
        if of_key and path in self.keys:
            return self.keys[path]
        return next(
            (self.values[path[:length]] for length in range(len(path), -1, -1) if path[:length] in self.values),
            self.name,
        )

    def move(self, path: Path, place: str) -> None:
        """Let a value, its key and everything in it stand at `place`."""
        for places in (self.values, self.keys):
            for inside in [old for old in places if old[: len(path)] == path]:
                del places[inside]
            places[path] = place


def parse_file_text(text: str, name: str) -> Document:
    """Parse the text of the grid file called `name`. Raises InputError."""
    return _Parser(text, name, lambda line, column: f"{name}:{line + 1}:{column + 1}").document()


def parse_override(text: str, name: str) -> Document:
    """Parse a value given on the command line; its every place is `name`. Raises InputError."""
    return _Parser(text, name, lambda line, column: name).document()


class _Parser:
    """Builds a Document from YAML events."""

    def __init__(self, text: str, name: str, where: Where) -> None:
        self._text, self._where = text, where
        self._events = self._checked_events()
        self._anchors: dict[str, Any] = {}
        self._document = Document(name, "")

    def document(self) -> Document:
        """Read the whole text."""
        next(self._events)
        event = next(self._events)
        self._document.values[()] = self._where(0, 0)
        if not isinstance(event, StreamEndEvent):
            self._document.tree = self._node((), next(self._events))
            next(self._events)
            event = next(self._events)
        if isinstance(event, DocumentStartEvent):
            raise self._error(event, (), "a second document starts here; a grid file holds one")
        return self._document

    def _checked_events(self) -> Iterator[Any]:
        # A generator of its own turns whatever the YAML library raises, at any event, into the user's error.
        try:
            yield from YAML(typ="safe", pure=True).parse(self._text)
        except MarkedYAMLError as error:
            raise self._syntax_error(error) from None
        except ReaderError as error:
            before = self._text[: error.position]
            place = self._where(before.count("\n"), len(before) - before.rfind("\n") - 1)
            character = f"U+{ord(self._text[error.position]):04X}"
            raise one_line(place, "", f"the character {character} cannot stand in YAML; take it out") from None
        except Exception as error:
            # Malformed input makes the library fail in undocumented ways too, with IndexError for one.
            raise one_line(self._where(0, 0), "", f"not YAML ({error}); correct the file") from None

    def _syntax_error(self, error: MarkedYAMLError) -> Exception:
        problem = str(error.problem)
        # Where the line, bracket or quote begins says more than where the file ends.
        at_start = error.context == "while scanning a simple key" or "end" in problem
        marks = (error.context_mark, error.problem_mark)[:: 1 if at_start else -1]
        mark = marks[0] or marks[1]
        hint = next((hint for part, hint in HINTS.items() if part in problem), None)
        place = self._where(mark.line, mark.column) if mark else self._where(0, 0)
        return one_line(place, "", hint or f"not YAML: {problem}; correct the brackets, quotes or indentation here")

    def _node(self, path: Path, event: Any) -> Any:
        place = self._where(event.start_mark.line, event.start_mark.column)
        if isinstance(event, ScalarEvent) and not event.value:
            place = self._document.keys.get(path, place)  # an empty value begins who knows where
        self._document.values[path] = place
        if len(path) > MAX_DEPTH:
            raise self._error(event, path[:MAX_DEPTH], "nested too deeply; a grid file has three levels")
        if isinstance(event, AliasEvent):
            return self._alias(path, event)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            message = f"explicit tag {tag}; leave it out, the setting knows its type"
            raise self._error(event, path, message)
        value = self._content(path, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _content(self, path: Path, event: NodeEvent) -> Any:
        if isinstance(event, ScalarEvent):
            return self._scalar(path, event)
        if isinstance(event, MappingStartEvent):
            return self._mapping(path)
        return self._sequence(path)

    def _alias(self, path: Path, event: AliasEvent) -> Any:
        # An anchor is known once its value is complete: a value that holds itself never is.
        if event.anchor not in self._anchors:
            message = f"alias *{event.anchor} stands before the end of its anchor; write the value out"
            raise self._error(event, path, message)
        return self._anchors[event.anchor]

    def _scalar(self, path: Path, event: ScalarEvent) -> str:
        if any("\ud800" <= character <= "\udfff" for character in event.value):
            raise self._error(event, path, "half of a surrogate pair; write the character itself")
        return event.value

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node((*path, len(items)), event))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(path, event)
            mapping[key] = self._node((*path, key), next(self._events))
        return mapping

    def _key(self, path: Path, event: Any) -> str:
        if not isinstance(event, ScalarEvent) or event.tag is not None:
            raise self._error(event, path, "a key that is no plain text; write `key: value`")
        if event.value == "<<" and event.style is None:
            raise self._error(event, path, "a merge key (<<); write the settings out")
        here = (*path, self._scalar(path, event))
        if here in self._document.keys:
            message = f"given twice, first at {self._document.keys[here]}; keep one of them"
            raise self._error(event, here, message)
        self._document.keys[here] = self._where(event.start_mark.line, event.start_mark.column)
        return event.value

    def _error(self, event: Any, path: Path, message: str) -> Exception:
        return one_line(self._where(event.start_mark.line, event.start_mark.column), dotted_place(path), message)


def require_mapping(document: Document) -> None:
    """Raise InputError unless the document is a mapping with something in it."""
    if document.tree == "" or document.tree == {}:
        message = "the grid is empty; see sweeps/quickstart.yaml for an example"
        raise one_line(document.where(()), "", message)
    if not isinstance(document.tree, dict):
        message = f"{show(document.tree)} where lines of `key: value` belong{missing_space(document.tree)}"
        raise one_line(document.where(()), "", message)
