"""Slow, obvious, float64 NumPy: what the fast code must agree with."""

import numpy as np
from scipy.special import erf

from geocont_jax.data.batches import batch_indices, epoch_order
from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.norms import EPSILON, NORMS
from geocont_jax.training.program import Purpose, run_key
from geocont_jax.training.state import init_state


def activate(name, z, c):
    """Return an activation's value and its derivative applied to a cotangent, as a function."""
    norm = np.linalg.norm(z, axis=-1, keepdims=True)
    if name == "radial":
        t = np.tanh(norm / c)
        return z * t, lambda g: g * t + z * np.sum(g * z, -1, keepdims=True) * (1 - t**2) / (c * norm)
    sigmoid = 1 / (1 + np.exp(-z))
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    value, slope = {
        "relu": (np.maximum(z, 0), (z > 0) * 1.0),
        "leaky_relu": (np.where(z > 0, z, 0.01 * z), np.where(z > 0, 1, 0.01)),
        "identity": (z, np.ones_like(z)),
        "tanh": (np.tanh(z), 1 - np.tanh(z) ** 2),
        "silu": (z * sigmoid, sigmoid * (1 + z * (1 - sigmoid))),
        "gelu": (z * 0.5 * (1 + erf(z / np.sqrt(2))), 0.5 * (1 + erf(z / np.sqrt(2))) + z * density),
    }[name]
    return value, lambda g: g * slope


def normalise(name, h):
    """Return a norm's value and its pullback."""
    if name == "none":
        return h, lambda g: g
    centred = h - h.mean(-1, keepdims=True) if name == "layernorm" else h
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    normed = centred * scale

    def pull(g):
        out = scale * (g - normed * (g * normed).mean(-1, keepdims=True))
        return out - out.mean(-1, keepdims=True) if name == "layernorm" else out

    return normed, pull


def loss_and_gradients(params, hypers, pixels, labels, data):
    """Return loss, accuracy and gradients by hand-written backpropagation."""
    activation, norm = list(ACTIVATIONS)[int(hypers["activation"])], list(NORMS)[int(hypers["norm"])]
    r, c = float(hypers["residual"]), float(hypers["activation_scale"])
    x = (np.asarray(pixels, np.float64) / 255 - float(data.mean)) / float(data.std)
    bias = "hidden_bias" in params
    h, saved = x @ params["input_kernel"] + params.get("input_bias", 0), []
    for layer, kernel in enumerate(params["hidden_kernel"]):
        normed, pull_norm = normalise(norm, h)
        value, pull = activate(activation, normed @ kernel + (params["hidden_bias"][layer] if bias else 0), c)
        saved.append((normed, pull_norm, pull))
        h = r * h + value
    logits = h @ params["output_kernel"] + params.get("output_bias", 0)
    logits = logits - logits.max(-1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels, rows = np.asarray(labels), np.arange(len(x))
    loss, accuracy = -np.log(p[rows, labels]).mean(), (p.argmax(-1) == labels).mean()
    g = p.copy()
    g[rows, labels] -= 1
    g /= len(x)
    gradients = {"output_kernel": h.T @ g} | ({"output_bias": g.sum(0)} if bias else {})
    g, kernels, biases = g @ params["output_kernel"].T, [], []
    for (normed, pull_norm, pull), kernel in zip(saved[::-1], params["hidden_kernel"][::-1], strict=True):
        inner = pull(g)
        kernels.append(normed.T @ inner)
        biases.append(inner.sum(0))
        g = r * g + pull_norm(inner @ kernel.T)
    gradients |= {"hidden_kernel": np.stack(kernels[::-1]), "input_kernel": x.T @ g}
    return (
        loss,
        accuracy,
        gradients | ({"hidden_bias": np.stack(biases[::-1]), "input_bias": g.sum(0)} if bias else {}),
    )


def numpy_step(program, hypers, oracle, data, indices, number):
    """Take one optimiser step as the textbooks (and PyTorch) write it."""
    params, memory = oracle["params"], oracle["memory"]
    h = {name: float(value) for name, value in hypers.items()}
    _, _, gradients = loss_and_gradients(params, hypers, data.x_train[indices], data.y_train[indices], data)
    total = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    clip = min(1.0, h["grad_clip"] / total) if h["grad_clip"] > 0 else 1.0
    optimizer, new, kept = program.settings.training.optimizer, {}, {}
    for name, w in params.items():
        decay = 0.0 if "bias" in name else h["weight_decay"]
        g = clip * gradients[name] + (decay * w if optimizer != "adamw" else 0)
        m, v = memory.get(name, (np.zeros_like(w), np.zeros_like(w)))
        if optimizer == "sgd":
            m = h["momentum"] * m + g
            direction = m
        else:
            m, v = h["beta1"] * m + (1 - h["beta1"]) * g, h["beta2"] * v + (1 - h["beta2"]) * g**2
            m_hat, v_hat = m / (1 - h["beta1"] ** (number + 1)), v / (1 - h["beta2"] ** (number + 1))
            direction = m_hat / (np.sqrt(v_hat) + 1e-8) + (decay * w if optimizer == "adamw" else 0)
        new[name], kept[name] = w - h["learning_rate"] * direction, (m, v)
    return {"params": new, "memory": kept, "gradients": gradients}


def oracle_record(program, hypers, data, steps):
    """Return the record after some steps, every quantity from its definition."""
    initial = {name: np.asarray(v, np.float64) for name, v in init_state(program, hypers).params.items()}
    oracle = {"params": initial, "memory": {}}
    cumulative, key = np.zeros_like(initial["hidden_kernel"]), run_key(hypers, Purpose.BATCHES)
    for number in range(steps):
        epoch, place = divmod(number, program.steps_per_epoch)
        order = epoch_order(key, epoch, program.num_train)
        indices = np.asarray(batch_indices(order, place, program.settings.data.batch_size))
        oracle = numpy_step(program, hypers, oracle, data, indices, number)
        cumulative = cumulative + oracle["gradients"]["hidden_kernel"]
    params = oracle["params"]
    train_loss, _, gradients = loss_and_gradients(params, hypers, data.x_eval, data.y_eval, data)
    test_loss, accuracy, _ = loss_and_gradients(params, hypers, data.x_test, data.y_test, data)
    moved = params["hidden_kernel"] - initial["hidden_kernel"]
    families = {"weight": params["hidden_kernel"], "update": moved, "gradient": gradients["hidden_kernel"],
                "cumulative_gradient": cumulative}  # fmt: skip
    record = {"train_loss": train_loss, "test_loss": test_loss, "test_accuracy": accuracy}
    norms = [np.linalg.norm(m) / np.linalg.norm(w) for m, w in zip(moved, initial["hidden_kernel"], strict=True)]
    record["update_ratio"] = np.mean(norms)
    for family, kernels in families.items():
        record |= {f"{family}_{name}": value for name, value in oracle_geometry(kernels).items()}
    return record


def oracle_geometry(kernels):
    """Return cosines, gaps and defects of kernels (layer, d_in, d_out), one SVD of W = kernel^T at a time."""
    if not kernels.any():
        missing = np.full(len(kernels), np.nan)
        return {
            "v1_cosine": missing[1:],
            "u1_cosine": missing[1:],
            "gap": missing,
            "defect": np.ones(len(kernels)),
        }
    u, s, vh = (np.stack(parts) for parts in zip(*(np.linalg.svd(k.T) for k in kernels), strict=True))
    v1, u1 = vh[:, 0], u[:, :, 0]
    return {
        "v1_cosine": np.abs((v1[:-1] * v1[1:]).sum(-1)),
        "u1_cosine": np.abs((u1[:-1] * u1[1:]).sum(-1)),
        "gap": (s[:, 0] - s[:, 1]) / s[:, 0],
        "defect": np.zeros(len(kernels)),
    }
