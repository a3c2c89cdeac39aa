"""Which tensor plays which part, as data: an entry for each family of models. A new one is all that a model needs.

Orientation is declared and never guessed: `in_out` tensors (GPT-2's Conv1D) are transposed, for a square matrix read
the wrong way round gives v1 for u1 without a word.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Where(NamedTuple):
    """Where a projection is: its tensor behind the layer's prefix, its orientation, and its part of a fused tensor.

    `split`, of which this is part number `part`: `qkv`, rows of Q, then K, then V; `qkv_by_head`, the same three for
    each head in turn (GPT-NeoX); `halves`, gate and up.
    """

    tensor: str
    orientation: Literal["out_in", "in_out"] = "out_in"
    split: Literal["", "qkv", "qkv_by_head", "halves"] = ""
    part: int = 0


class Norm(NamedTuple):
    """The gain of the norm that a reader's input has passed.

    `tensor` behind the prefix of the layer, or with `after_layer` behind that of the layer before, and before the first
    layer `embedding` behind the model's. `offset` is added to what is stored: Gemma stores the gain less 1.
    """

    tensor: str
    offset: float = 0.0
    after_layer: bool = False
    embedding: str = ""


@dataclass(frozen=True)
class Architecture:
    """A family of models that name their tensors alike.

    `layer` is a pattern for the prefix of a layer's tensors, with groups `model` (the model's own prefix, which tells a
    text tower from others) and `number`. An entry fits a checkpoint of its `format` that has all tensors in `needs` in
    some layer and none of `lacks` in any, and, where `model_types` are given, says that it is one of them. `norms` are
    by projection. `is_permuted` says whether the rows of Q and K are stored in the order of interleaved rotary
    embeddings, head by head.
    """

    name: str
    models: str
    format: Literal["safetensors", "gguf"]
    layer: re.Pattern[str]
    projections: Mapping[str, Where]
    norms: Mapping[str, Norm] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    is_permuted: bool = False


def _layer(stem: str, *models: str) -> re.Pattern[str]:
    """Return a pattern for `stem.NUMBER.` alone or behind one of the prefixes of `models`."""
    prefixes = "|".join(map(re.escape, ("", *models)))
    return re.compile(rf"^(?P<model>{prefixes}){re.escape(stem)}\.(?P<number>0|[1-9][0-9]{{0,3}})\.")


# The text tower stands alone, under `model.`, or inside a multimodal wrapper.
LAYERS = _layer(
    "layers", "model.", "language_model.", "model.language_model.", "language_model.model.", "model.text_model."
)
ENCODER = _layer("encoder.layer", "bert.", "roberta.", "electra.")
BLOCKS = _layer("blk")


def _attention(prefix: str, q: str, k: str, v: str, o: str) -> dict[str, Where]:
    return {name: Where(f"{prefix}{tensor}.weight") for name, tensor in {"q": q, "k": k, "v": v, "o": o}.items()}


def _gated(prefix: str, gate: str, up: str, down: str) -> dict[str, Where]:
    return {name: Where(f"{prefix}{tensor}.weight") for name, tensor in {"gate": gate, "up": up, "down": down}.items()}


def _before(attention: Norm, mlp: Norm) -> dict[str, Norm]:
    """Return the norms of a pre-norm layer, one before attention and one before the MLP."""
    return {**dict.fromkeys(("q", "k", "v"), attention), **dict.fromkeys(("gate", "up"), mlp)}


def _after(attention: str, mlp: str, embedding: str) -> dict[str, Norm]:
    """Return the norms of a post-norm layer: what attention reads has passed the last norm of the layer before."""
    return _before(Norm(mlp, after_layer=True, embedding=embedding), Norm(attention))


def _fused(tensor: str, orientation: Literal["out_in", "in_out"] = "out_in") -> dict[str, Where]:
    return {name: Where(tensor, orientation, "qkv", part) for part, name in enumerate("qkv")}


LLAMA = {
    **_attention("self_attn.", "q_proj", "k_proj", "v_proj", "o_proj"),
    **_gated("mlp.", "gate_proj", "up_proj", "down_proj"),
}
LLAMA_GGUF = {
    **_attention("", "attn_q", "attn_k", "attn_v", "attn_output"),
    **_gated("", "ffn_gate", "ffn_up", "ffn_down"),
}
GGUF_NORMS = _before(Norm("attn_norm.weight"), Norm("ffn_norm.weight"))
BERT = {
    **_attention("attention.", "self.query", "self.key", "self.value", "output.dense"),
    "up": Where("intermediate.dense.weight"),
    "down": Where("output.dense.weight"),
}
BERT_NORMS = ("attention.output.LayerNorm", "output.LayerNorm", "embeddings.LayerNorm")
Q_LLAMA, Q_GGUF = LLAMA["q"].tensor, LLAMA_GGUF["q"].tensor

ARCHITECTURES = (
    Architecture(
        "gemma 2/3", "Gemma 2, Gemma 3 (also inside their multimodal wrapper)", "safetensors", LAYERS, LLAMA,
        _before(Norm("input_layernorm.weight", 1.0), Norm("pre_feedforward_layernorm.weight", 1.0)),
        needs=(Q_LLAMA, "pre_feedforward_layernorm.weight"),
        lacks=("per_layer_input_gate.weight", "layer_scalar"),  # Gemma 3n and 4, which store whole gains
    ),
    Architecture(
        "post-norm llama", "EXAONE 4, OLMo 2: no norm before a reader, so no gain to fold", "safetensors", LAYERS,
        LLAMA, needs=(Q_LLAMA, "post_feedforward_layernorm.weight"), lacks=("input_layernorm.weight",),
    ),
    Architecture(
        "gemma", "Gemma", "safetensors", LAYERS, LLAMA,
        _before(Norm("input_layernorm.weight", 1.0), Norm("post_attention_layernorm.weight", 1.0)),
        needs=(Q_LLAMA,), model_types=("gemma",),
    ),
    Architecture(
        "llama", "Llama, Mistral, Qwen 2 and 3, SmolLM; attention of Mixtral and other mixtures of experts",
        "safetensors", LAYERS, LLAMA,
        _before(Norm("input_layernorm.weight"), Norm("post_attention_layernorm.weight")),
        needs=(Q_LLAMA,), lacks=("pre_feedforward_layernorm.weight",),
    ),
    Architecture(
        "phi3", "Phi-3, Phi-4", "safetensors", LAYERS,
        {
            **_fused("self_attn.qkv_proj.weight"),
            "o": Where("self_attn.o_proj.weight"),
            "gate": Where("mlp.gate_up_proj.weight", split="halves"),
            "up": Where("mlp.gate_up_proj.weight", split="halves", part=1),
            "down": Where("mlp.down_proj.weight"),
        },
        _before(Norm("input_layernorm.weight"), Norm("post_attention_layernorm.weight")),
        needs=("self_attn.qkv_proj.weight",),
    ),
    Architecture(
        "exaone 3", "EXAONE 3", "safetensors", _layer("h", "transformer."),
        {
            **_attention("attn.attention.", "q_proj", "k_proj", "v_proj", "out_proj"),
            **_gated("mlp.", "c_fc_0", "c_fc_1", "c_proj"),
        },
        _before(Norm("ln_1.weight"), Norm("ln_2.weight")),
        needs=("attn.attention.q_proj.weight", "mlp.c_fc_0.weight"),
    ),
    Architecture(
        "gpt2", "GPT-2", "safetensors", _layer("h", "transformer."),
        {
            **_fused("attn.c_attn.weight", "in_out"),
            "o": Where("attn.c_proj.weight", "in_out"),
            "up": Where("mlp.c_fc.weight", "in_out"),
            "down": Where("mlp.c_proj.weight", "in_out"),
        },
        _before(Norm("ln_1.weight"), Norm("ln_2.weight")),
        needs=("attn.c_attn.weight",),
    ),
    Architecture(
        "gpt-neox", "GPT-NeoX, Pythia", "safetensors", _layer("layers", "gpt_neox."),
        {
            **{
                name: Where("attention.query_key_value.weight", split="qkv_by_head", part=part)
                for part, name in enumerate("qkv")
            },
            "o": Where("attention.dense.weight"),
            "up": Where("mlp.dense_h_to_4h.weight"),
            "down": Where("mlp.dense_4h_to_h.weight"),
        },
        _before(Norm("input_layernorm.weight"), Norm("post_attention_layernorm.weight")),
        needs=("attention.query_key_value.weight",),
    ),
    Architecture(
        "bert", "BERT, RoBERTa, MiniLM and other post-norm encoders", "safetensors", ENCODER, BERT,
        _after(*(f"{tensor}.weight" for tensor in BERT_NORMS)),
        needs=(BERT["q"].tensor,), lacks=("output.LayerNorm.gamma",),
    ),
    Architecture(
        "bert, names of 2018", "BERT as converted from TensorFlow (bert-base-uncased)", "safetensors", ENCODER, BERT,
        _after(*(f"{tensor}.gamma" for tensor in BERT_NORMS)),
        needs=(BERT["q"].tensor, "output.LayerNorm.gamma"),
    ),
    # In GGUF files linear layers are (out, in) whatever they were before, Gemma's gains are whole, and GPT-NeoX's heads
    # are sorted out: llama.cpp's convert_hf_to_gguf.py did it. It also permutes Q and K of those families for which
    # llama.cpp turns neighbouring rows together (LlamaModel and its subclasses there).
    Architecture(
        "llama", "Llama, Mistral, SmolLM; attention of Mixtral", "gguf", BLOCKS, LLAMA_GGUF, GGUF_NORMS,
        needs=(Q_GGUF,), model_types=("llama", "mistral3", "smollm3"), is_permuted=True,
    ),
    Architecture(
        "bert", "BERT and other post-norm encoders", "gguf", BLOCKS,
        {name: where for name, where in LLAMA_GGUF.items() if name != "gate"},
        _after("attn_output_norm.weight", "layer_output_norm.weight", "token_embd_norm.weight"),
        needs=(Q_GGUF,), model_types=("bert",),
    ),
    Architecture(
        "llama names", "Qwen 2 and 3, Gemma 1 to 3, EXAONE 3 and 4, OLMo 2", "gguf", BLOCKS, LLAMA_GGUF, GGUF_NORMS,
        needs=(Q_GGUF,),
        model_types=(
            "qwen2", "qwen3", "qwen2moe", "qwen3moe", "qwen2vl", "qwen3vl", "qwen3vlmoe",
            "gemma", "gemma2", "gemma3", "exaone", "exaone4", "olmo2",
        ),
    ),
    Architecture(
        "phi3", "Phi-3, Phi-4", "gguf", BLOCKS,
        {
            **_fused("attn_qkv.weight"),
            "o": Where("attn_output.weight"),
            "gate": Where("ffn_up.weight", split="halves"),
            "up": Where("ffn_up.weight", split="halves", part=1),
            "down": Where("ffn_down.weight"),
        },
        GGUF_NORMS, needs=("attn_qkv.weight",), model_types=("phi3",),
    ),
    Architecture(
        "gpt2 and gpt-neox", "GPT-2, GPT-NeoX, Pythia", "gguf", BLOCKS,
        {
            **_fused("attn_qkv.weight"),
            "o": Where("attn_output.weight"),
            "up": Where("ffn_up.weight"),
            "down": Where("ffn_down.weight"),
        },
        GGUF_NORMS, needs=("attn_qkv.weight",), model_types=("gpt2", "gptneox"),
    ),
)  # fmt: skip
"""Every family that can be read; the first that fits is taken."""
