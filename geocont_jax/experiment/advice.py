"""What to say about a key that no setting has."""

from geocont_jax.experiment.problems import Path
from geocont_jax.experiment.scalars import close_name, did_you_mean
from geocont_jax.experiment.sections import AXIS_NAMES, FIELDS, SECTIONS, short_name

AXIS_KEYS = ("sweep", "zip", "exclude")
TOP_KEYS = ("name", "description", *SECTIONS, *AXIS_KEYS, "seeds")


def unknown_key(path: Path) -> str:
    """Return what is wrong with the unknown key at the end of `path`, and what to write instead.

    >>> unknown_key(("model", "learning_rate"))
    'unknown key; write training.learning_rate'
    >>> unknown_key(("sweep", "model.activatoin"))
    'unknown key; did you mean model.activation?'
    """
    key, top = str(path[-1]), str(path[0]) if len(path) > 1 else None
    if top in AXIS_KEYS and key in (*TOP_KEYS, "model.kind"):
        return "cannot be an axis; an axis is a setting such as model.width"
    owners = [name for name in FIELDS if short_name(name) == short_name(key)]
    if owners and key != short_name(owners[0]) and top in SECTIONS and owners[0].startswith(f"{top}."):
        return f"unknown key; write {short_name(owners[0])}, the section is there already"
    if owners and key not in owners:
        return f"unknown key; write {owners[0]}"
    if owners:
        section, _, name = owners[0].partition(".")
        return f"unknown key; write {section}: {{{name}: ...}}"
    return f"unknown key; {_similar(key, _known(top))}"


def _known(top: str | None) -> tuple[str, ...]:
    if top is None:
        return TOP_KEYS
    names = AXIS_NAMES if top in AXIS_KEYS else FIELDS
    return tuple(
        name if top in AXIS_KEYS else short_name(name) for name in names if top in (*AXIS_KEYS, _section(name))
    )


def _similar(key: str, known: tuple[str, ...]) -> str:
    elsewhere = close_name(short_name(key), map(short_name, FIELDS))
    if elsewhere and not close_name(key, known):
        return f"did you mean {next(name for name in FIELDS if short_name(name) == elsewhere)}?"
    return did_you_mean(key, known)


def _section(dotted: str) -> str:
    return dotted.partition(".")[0]
