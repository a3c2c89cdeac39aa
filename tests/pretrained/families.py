"""How families of models name and store the same layers: matrices (d_out, d_in) by projection, to tensors by name."""

import numpy as np

NUM_HEADS, NUM_KV_HEADS = 4, 2

LLAMA = {
    **{name: f"self_attn.{name}_proj.weight" for name in "qkvo"},
    **{name: f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")},
}
EXAONE = {
    **{name: f"attn.attention.{name}_proj.weight" for name in "qkv"},
    "o": "attn.attention.out_proj.weight",
    "gate": "mlp.c_fc_0.weight",
    "up": "mlp.c_fc_1.weight",
    "down": "mlp.c_proj.weight",
}
BERT = {
    "q": "attention.self.query.weight",
    "k": "attention.self.key.weight",
    "v": "attention.self.value.weight",
    "o": "attention.output.dense.weight",
    "up": "intermediate.dense.weight",
    "down": "output.dense.weight",
}
GGUF = {
    **{name: f"attn_{name}.weight" for name in "qkv"},
    "o": "attn_output.weight",
    **{name: f"ffn_{name}.weight" for name in ("gate", "up", "down")},
}


def plain(prefix, names):
    """A tensor for each matrix, as it is."""
    return lambda layers: {
        f"{prefix.format(n)}{names[projection]}": matrix
        for n, layer in enumerate(layers)
        for projection, matrix in layer.items()
    }


llama = plain("model.layers.{}.", LLAMA)


def gpt2(layers):
    """Q, K and V in one, and everything (in, out)."""
    found = {}
    for n, layer in enumerate(layers):
        found[f"transformer.h.{n}.attn.c_attn.weight"] = np.concatenate([layer[name] for name in "qkv"]).T
        for name, tensor in {"o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}.items():
            found[f"transformer.h.{n}.{tensor}.weight"] = layer[name].T
    return found


def phi3(layers):
    """Q, K and V in one, gate and up in another."""
    found = {}
    for n, layer in enumerate(layers):
        prefix = f"model.layers.{n}."
        found[f"{prefix}self_attn.qkv_proj.weight"] = np.concatenate([layer[name] for name in "qkv"])
        found[f"{prefix}self_attn.o_proj.weight"] = layer["o"]
        found[f"{prefix}mlp.gate_up_proj.weight"] = np.concatenate([layer["gate"], layer["up"]])
        found[f"{prefix}mlp.down_proj.weight"] = layer["down"]
    return found


def neox(layers):
    """Q, K and V of the first head, then those of the second, and so on."""
    found = {}
    for n, layer in enumerate(layers):
        prefix = f"gpt_neox.layers.{n}."
        heads = zip(*(np.split(layer[name], NUM_HEADS) for name in "qkv"), strict=True)
        found[f"{prefix}attention.query_key_value.weight"] = np.concatenate([rows for head in heads for rows in head])
        for name, tensor in {"o": "attention.dense", "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h"}.items():
            found[f"{prefix}{tensor}.weight"] = layer[name]
    return found


def permuted(matrix, heads):
    """The rows as llama.cpp's converter puts them: half-split to interleaved, head by head."""
    d_out, d_in = matrix.shape
    return matrix.reshape(heads, 2, d_out // heads // 2, d_in).swapaxes(1, 2).reshape(d_out, d_in)


def gguf_llama(layers):
    """Q and K permuted."""
    heads = {"q": NUM_HEADS, "k": NUM_KV_HEADS}
    turned = [{n: permuted(m, heads[n]) if n in heads else m for n, m in layer.items()} for layer in layers]
    return plain("blk.{}.", GGUF)(turned)


def gguf_fused(layers):
    """As the converter leaves GPT-2 and GPT-NeoX, and, where there is a gate, Phi-3."""
    found = {}
    for n, layer in enumerate(layers):
        found[f"blk.{n}.attn_qkv.weight"] = np.concatenate([layer[name] for name in "qkv"])
        found[f"blk.{n}.attn_output.weight"] = layer["o"]
        found[f"blk.{n}.ffn_up.weight"] = np.concatenate([layer[name] for name in ("gate", "up") if name in layer])
        found[f"blk.{n}.ffn_down.weight"] = layer["down"]
    return found


def gguf_config(arch, num_layers, hidden, kv_heads=NUM_HEADS):
    keys = {
        "block_count": num_layers,
        "embedding_length": hidden,
        "attention.head_count": NUM_HEADS,
        "attention.head_count_kv": kv_heads,
    }
    return {"general.architecture": arch} | {f"{arch}.{key}": value for key, value in keys.items()}
