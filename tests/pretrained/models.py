"""Small random models in the names of the llama family, written to disk."""

import numpy as np

from tests.pretrained.checkpoint_files import write_safetensors

SHAPES = {
    "self_attn.q_proj": lambda d, f: (d, d),
    "self_attn.k_proj": lambda d, f: (d // 2, d),
    "self_attn.v_proj": lambda d, f: (d // 2, d),
    "self_attn.o_proj": lambda d, f: (d, d),
    "mlp.gate_proj": lambda d, f: (f, d),
    "mlp.up_proj": lambda d, f: (f, d),
    "mlp.down_proj": lambda d, f: (d, f),
}


def llama_tensors(num_layers=3, hidden=16, ffn=24, seed=0):
    rng = np.random.default_rng(seed)
    tensors = {"model.embed_tokens.weight": rng.normal(size=(32, hidden))}
    for layer in range(num_layers):
        for name, shape in SHAPES.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = rng.normal(size=shape(hidden, ffn))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = 1 + 0.1 * rng.normal(size=hidden)
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def llama_config(num_layers=3, hidden=16, ffn=24):
    return {
        "model_type": "llama",
        "num_hidden_layers": num_layers,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }


def write_llama(folder, num_layers=3, hidden=16, ffn=24, seed=0, **options):
    """Write a model into a folder, and return its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = llama_tensors(num_layers, hidden, ffn, seed)
    write_safetensors(folder, tensors, config=llama_config(num_layers, hidden, ffn), **options)
    return tensors
