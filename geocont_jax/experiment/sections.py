"""The sections of a grid file: names, types and defaults of all settings, and which are traced.

A setting marked `Traced` is a number that enters the compiled program from outside, so that no value of it
ever compiles anything. All others are static: they say which program it is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

from geocont_jax.data.datasets import LOADERS, check_name
from geocont_jax.experiment.problems import problem
from geocont_jax.experiment.scalars import (
    Bool,
    Choice,
    Coefficient,
    Either,
    Float,
    Int,
    Maybe,
    Scalar,
    Schema,
    Text,
)
from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.initializers import INITIALIZERS
from geocont_jax.models.norms import NORMS
from geocont_jax.optimizers.registry import OPTIMIZERS

DEFAULT_EPOCHS = 4


@dataclass(frozen=True)
class Traced:
    """Marks a setting as traced; `encode` turns its value into the number that the program gets.

    A `branch` is an index that selects code: runs that stand side by side should share it.
    """

    encode: Callable[[Any], float | int] = float
    branch: bool = False


class Section(BaseModel):
    """One section of the settings: frozen, hashable, closed to unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ResidualMLPSection(Section):
    """`model` of kind residual_mlp: `h <- residual * h + activation(W norm(h))` between two linear maps."""

    kind: Annotated[str, Choice(("residual_mlp",))] = "residual_mlp"
    """What is trained."""
    depth: Annotated[int, Int(ge=2)] = 16
    """Number of hidden layers; two make a pair."""
    width: Annotated[int, Int(ge=2)] = 256
    """Features of each hidden layer."""
    residual: Annotated[bool | float, Coefficient(), Traced()] = True
    """The skip path: true, false, or its coefficient from 0 to 1."""
    activation: Annotated[
        str, Choice(tuple(ACTIVATIONS), nothing="identity for no activation"),
        Traced(list(ACTIVATIONS).index, branch=True),
    ] = "relu"  # fmt: skip
    """The nonlinearity; `identity` is none."""
    activation_scale: Annotated[float, Float(gt=0), Traced()] = 1.0
    """c in the activation radial, x tanh(|x| / c)."""
    norm: Annotated[str, Choice(tuple(NORMS), nothing="none for no norm"), Traced(list(NORMS).index, branch=True)] = (
        "none"
    )
    """Normalisation at the entrance of each hidden layer."""
    init: Annotated[str, Choice(tuple(INITIALIZERS))] = "torch_uniform"
    """Distribution of the initial weights."""
    init_std: Annotated[float, Float(gt=0), Traced()] = 0.02
    """Standard deviation of the initial weights where init is normal."""
    init_scale: Annotated[float, Float(gt=0), Traced()] = 1.0
    """Factor on the initial hidden matrices."""
    bias: Annotated[bool, Bool()] = False
    """Whether layers have biases, which start at 0."""


# Other kinds of model join here with a section class each; the alias below becomes their union.
MODEL_SECTIONS: dict[str, type[Section]] = {"residual_mlp": ResidualMLPSection}
DEFAULT_KIND = "residual_mlp"


def _by_kind(raw: Any) -> Any:
    """Validate a raw `model` section as the class that its `kind` names."""
    if not isinstance(raw, Mapping):
        return raw
    try:
        kind = Choice(tuple(MODEL_SECTIONS)).parse(raw.get("kind", DEFAULT_KIND))
    except ValueError as error:
        raise problem(str(error), "kind") from None
    return MODEL_SECTIONS[kind].model_validate(raw)


ModelSection: TypeAlias = Annotated[ResidualMLPSection, BeforeValidator(_by_kind)]


class DatasetName(Scalar):
    """The name of a data set, or npz:PATH."""

    def parse(self, value: Any) -> str:
        """Return the name."""
        return check_name(Text().parse(value))

    def schema(self) -> Schema:
        """Return the JSON schema: the names, or a path behind npz:."""
        return {"anyOf": [{"enum": list(LOADERS)}, {"type": "string", "pattern": r"^npz:[\s\S]+$"}]}


class DataSection(Section):
    """`data`: what is learned, and how much of it at a time."""

    name: Annotated[str, DatasetName()] = "mnist10k"
    """A data set: mnist10k comes with the package, npz:PATH is a file of your own."""
    batch_size: Annotated[int, Int()] = 128
    """Training examples in a step."""
    dir: Annotated[str | None, Maybe(Text())] = None
    """Folder of prepared tensorflow-datasets; the default is TFDS_DATA_DIR. No part of a run's identity."""


def _default_epochs(given: dict[str, Any]) -> int | None:
    return None if given.get("steps") is not None else DEFAULT_EPOCHS


class TrainingSection(Section):
    """`training`: the optimiser and how long it works."""

    optimizer: Annotated[str, Choice(tuple(OPTIMIZERS))] = "adam"
    """Optimiser family."""
    learning_rate: Annotated[float, Float(ge=0), Traced()] = 1e-3
    """Step size."""
    beta1: Annotated[float, Float(ge=0, lt=1), Traced()] = 0.9
    """Decay of the first moment of adam, adamw and novograd."""
    beta2: Annotated[float, Float(ge=0, lt=1), Traced()] = 0.999
    """Decay of the second moment of adam, adamw and novograd."""
    momentum: Annotated[float, Float(ge=0, lt=1), Traced()] = 0.0
    """Momentum of sgd, sign and muon."""
    weight_decay: Annotated[float, Float(ge=0), Traced()] = 0.0
    """Weight decay: decoupled in adamw, L2 in the others; 0 is off."""
    grad_clip: Annotated[float, Float(ge=0), Traced()] = 0.0
    """Largest norm of the whole gradient; 0 is off."""
    steps: Annotated[int | None, Maybe(Int())] = None
    """Length of the training in steps, instead of epochs."""
    epochs: Annotated[int | None, Maybe(Int())] = Field(default_factory=_default_epochs)
    """Length of the training in epochs: 4, unless steps is given."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise problem("training.epochs is given as well; leave one of them out", "steps")
        if self.steps is None and self.epochs is None:
            raise problem("neither epochs nor steps is given; write one of them")
        return self


class MeasureSection(Section):
    """`measure`: when and how the geometry is measured."""

    every: Annotated[str | int, Either(("epoch",), Int())] = "epoch"
    """Time between two records: epoch, or a number of steps."""
    families: Annotated[str, Choice(("basic", "all"))] = "basic"
    """Families of matrices: basic (weight, update, gradient, cumulative gradient) or all seven."""
    reference: Annotated[str | int, Either(("epoch",), Int())] = "epoch"
    """Where rotation drift counts from: the first record after an epoch, or after this many steps."""
    svd: Annotated[str, Choice(("exact", "fast", "auto"))] = "exact"
    """Singular vectors: exact (all, every quantity), fast (leading ones), auto (those, by what is quickest here)."""
    examples: Annotated[int, Int()] = 2048
    """Training examples, evenly spaced, on which the gradient and the training loss are measured."""
    test_examples: Annotated[int | None, Maybe(Int())] = None
    """Test examples, evenly spaced, on which test loss and accuracy are measured; all, unless a number is given."""

    @property
    def finds_spectra(self) -> bool:
        """Whether whole spectra are found, not leading triplets alone."""
        return self.svd == "exact"


def _walk() -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting of every model kind by its dotted name."""
    sections = [("model", kind) for kind in MODEL_SECTIONS.values()]
    sections += [("data", DataSection), ("training", TrainingSection), ("measure", MeasureSection)]
    for section, kind in sections:
        yield from ((f"{section}.{name}", field) for name, field in kind.model_fields.items())


FIELDS: dict[str, FieldInfo] = dict(_walk())
"""Every setting by its dotted name, such as model.width."""

# Kinds of model have different settings, so a grid has one kind.
AXIS_NAMES = tuple(name for name in FIELDS if name != "model.kind")

SECTIONS = tuple(dict.fromkeys(dotted.partition(".")[0] for dotted in FIELDS))
"""Names of the sections."""


def short_name(dotted: str) -> str:
    """Return the last part of a dotted name: model.width is width in tables and records."""
    return dotted.rpartition(".")[2]


def _marker(field: FieldInfo) -> Traced | None:
    return next((mark for mark in field.metadata if isinstance(mark, Traced)), None)


MARKERS: dict[str, Traced] = {
    short_name(dotted): marker for dotted, field in FIELDS.items() if (marker := _marker(field))
}
"""How each traced setting enters the program, by its short name."""
