"""A Llama in float64 NumPy, as slow and plain as it can be: RMSNorm, half-split rotary embeddings, grouped heads."""

import numpy as np


def rms_norm(x, gain, epsilon=1e-5):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + epsilon) * gain


def rotate(x, base=10000.0):
    """Turn the pairs (i, i + h/2) of each head by position times base^(-2i/h); x is (position, head, h)."""
    positions, _, size = x.shape
    angles = np.arange(positions)[:, None] * base ** (-2.0 * np.arange(size // 2) / size)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    one, other = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


def attention(x, w, num_heads, num_kv_heads):
    q, k, v = (x @ w[name].T for name in "qkv")
    size = q.shape[1] // num_heads
    q, k, v = (y.reshape(len(x), -1, size) for y in (q, k, v))
    q, k = rotate(q), rotate(k)
    k, v = (np.repeat(y, num_heads // num_kv_heads, axis=1) for y in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(size)
    scores = np.where(np.tril(np.ones((len(x), len(x)), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", weights, v).reshape(len(x), -1) @ w["o"].T


def mlp(x, w):
    gate = x @ w["gate"].T
    return (gate / (1 + np.exp(-gate)) * (x @ w["up"].T)) @ w["down"].T


def logits(ids, embedding, layers, norms, last_norm, num_heads, num_kv_heads):
    """Return the logits (position, vocabulary) of ids; `norms` are pairs of gains, `layers` matrices by projection."""
    x = embedding[ids]
    for w, (before_attention, before_mlp) in zip(layers, norms, strict=True):
        x = x + attention(rms_norm(x, before_attention), w, num_heads, num_kv_heads)
        x = x + mlp(rms_norm(x, before_mlp), w)
    return rms_norm(x, last_norm) @ embedding.T
