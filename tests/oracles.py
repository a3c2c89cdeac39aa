"""Slow, obvious, float64 NumPy: what the fast code must agree with."""

import numpy as np
from scipy.special import erf

from geocont_jax.data.batches import batch_indices, epoch_order
from geocont_jax.geometry.quantities import QUANTITIES
from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.norms import EPSILON, NORMS
from geocont_jax.training.program import Purpose, run_key
from geocont_jax.training.state import init_state
from tests.oracles_geometry import ORACLES


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


def preactivation_norms(params, hypers, pixels, data):
    """Return the mean length (layer,) of what each activation gets."""
    activation, norm = list(ACTIVATIONS)[int(hypers["activation"])], list(NORMS)[int(hypers["norm"])]
    x = (np.asarray(pixels, np.float64) / 255 - float(data.mean)) / float(data.std)
    h, lengths = x @ params["input_kernel"] + params.get("input_bias", 0), []
    for layer, kernel in enumerate(params["hidden_kernel"]):
        z = normalise(norm, h)[0] @ kernel + (params["hidden_bias"][layer] if "hidden_bias" in params else 0)
        lengths.append(np.linalg.norm(z, axis=-1).mean())
        h = float(hypers["residual"]) * h + activate(activation, z, float(hypers["activation_scale"]))[0]
    return np.array(lengths)


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


def newton_schulz(x):
    """Push the singular values of a matrix towards 1, by Muon's five quintic steps."""
    if x.shape[0] > x.shape[1]:
        return newton_schulz(x.T).T
    x = x / (np.linalg.norm(x) + 1e-8)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def direction(optimizer, h, g, memory, number, is_kernel):
    """Return what the learning rate multiplies, and what is remembered, as the textbooks (and PyTorch) write it."""
    m, v = memory
    if optimizer in ("sgd", "sign") or (optimizer == "muon" and not is_kernel):
        m = h["momentum"] * m + g
        return (np.sign(m) if optimizer == "sign" else m), (m, v)
    if optimizer == "muon":
        beta = h["momentum"]
        m = beta * m + (1 - beta) * g
        nesterov = beta * m / (1 - beta ** (number + 2)) + (1 - beta) * g / (1 - beta ** (number + 1))
        return np.stack([newton_schulz(x) for x in np.reshape(nesterov, (-1, *g.shape[-2:]))]).reshape(g.shape), (m, v)
    if optimizer == "novograd":
        squared = (g**2).sum()
        v = squared if number == 0 else h["beta2"] * v + (1 - h["beta2"]) * squared
        m = h["beta1"] * m + g / (np.sqrt(v) + 1e-8)
        return m, (m, v)
    m, v = h["beta1"] * m + (1 - h["beta1"]) * g, h["beta2"] * v + (1 - h["beta2"]) * g**2
    m_hat, v_hat = m / (1 - h["beta1"] ** (number + 1)), v / (1 - h["beta2"] ** (number + 1))
    return m_hat / (np.sqrt(v_hat) + 1e-8), (m, v)


def numpy_step(program, hypers, oracle, data, indices, number):
    """Take one optimiser step."""
    params, memory = oracle["params"], oracle["memory"]
    h = {name: float(value) for name, value in hypers.items()}
    _, _, gradients = loss_and_gradients(params, hypers, data.x_train[indices], data.y_train[indices], data)
    total = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    clip = min(1.0, h["grad_clip"] / total) if h["grad_clip"] > 0 else 1.0
    optimizer, new, kept, steps = program.settings.training.optimizer, {}, {}, {}
    for name, w in params.items():
        decay = 0.0 if "bias" in name else h["weight_decay"]
        decoupled = decay if optimizer == "adamw" else 0.0
        g = clip * gradients[name] + (decay - decoupled) * w
        before = memory.get(name, (np.zeros_like(w), np.zeros_like(w)))
        taken, kept[name] = direction(optimizer, h, g, before, number, "kernel" in name)
        steps[name] = -h["learning_rate"] * taken
        new[name] = w + steps[name] - h["learning_rate"] * decoupled * w
    return {"params": new, "memory": kept, "gradients": gradients, "steps": steps}


def oracle_record(program, hypers, data, step):
    """Return the record after some steps, every quantity from its definition."""
    history = oracle_history(program, hypers, data, step)
    weights = [at["params"]["hidden_kernel"] for at in history]
    gradients = np.array([at["gradients"]["hidden_kernel"] for at in history[1:]]).reshape(-1, *weights[0].shape)
    params = history[-1]["params"]
    train_loss, _, now = loss_and_gradients(params, hypers, data.x_eval, data.y_eval, data)
    test_loss, accuracy, _ = loss_and_gradients(params, hypers, data.x_test, data.y_test, data)
    records = [number for number in program.record_steps if number < step]
    previous = records[-1] if records else 0
    moved = weights[-1] - weights[0]
    families = {
        "weight": weights[-1],
        "update": moved,
        "gradient": now["hidden_kernel"],
        "cumulative_gradient": gradients.sum(axis=0),
    }
    if program.settings.measure.families == "all":
        steps = [at["steps"]["hidden_kernel"] for at in history[1:]]
        families |= {
            "mean_gradient": gradients[previous:].sum(axis=0) / max(step - previous, 1),
            "cumulative_step": sum(steps, np.zeros_like(moved)),
            "recent_update": weights[-1] - weights[previous],
        }
    record = {"train_loss": train_loss, "test_loss": test_loss, "test_accuracy": accuracy}
    norms = [np.linalg.norm(m) / np.linalg.norm(w) for m, w in zip(moved, weights[0], strict=True)]
    record["update_ratio"] = np.mean(norms)
    for family, kernels in families.items():
        record |= {f"{family}_{name}": value for name, value in oracle_geometry(kernels).items()}
    record["coherence_gap"] = record["cumulative_gradient_v1_cosine"] - record["weight_v1_cosine"]
    record["preactivation_norm"] = preactivation_norms(params, hypers, data.x_eval, data)
    return record | oracle_drift(program, weights)


def oracle_history(program, hypers, data, num_steps):
    """Return the training step by step: parameters, gradients and optimiser's steps after 0, 1, ... steps."""
    initial = {name: np.asarray(v, np.float64) for name, v in init_state(program, hypers).params.items()}
    history, key = [{"params": initial, "memory": {}}], run_key(hypers, Purpose.BATCHES)
    for number in range(num_steps):
        epoch, place = divmod(number, program.steps_per_epoch)
        order = epoch_order(key, epoch, program.num_train)
        indices = np.asarray(batch_indices(order, place, program.settings.data.batch_size))
        history.append(numpy_step(program, hypers, history[-1], data, indices, number))
    return history


def oracle_drift(program, weights):
    """Return the angles in degrees of every layer's v1 and u1 to those at the reference record, NaN before it."""
    reference_step = program.settings.measure.reference
    if reference_step == "epoch":
        reference_step = program.steps_per_epoch
    since = [number for number in program.record_steps if reference_step <= number < len(weights)]
    angles = {name: np.full(len(weights[0]), np.nan) for name in ("weight_v1_drift", "weight_u1_drift")}
    if since:
        for layer in range(len(weights[0])):
            (u, _, vh), (u_0, _, vh_0) = (np.linalg.svd(weights[at][layer].T) for at in (-1, since[0]))
            angles["weight_v1_drift"][layer] = np.degrees(np.arccos(min(abs(vh[0] @ vh_0[0]), 1)))
            angles["weight_u1_drift"][layer] = np.degrees(np.arccos(min(abs(u[:, 0] @ u_0[:, 0]), 1)))
    return angles


def oracle_geometry(kernels):
    """Return every quantity of kernels (layer, d_in, d_out), from the paper's matrices W = kernel^T."""
    matrices = np.swapaxes(kernels, 1, 2)
    shapes = {"pair": len(kernels) - 1, "layer": len(kernels), "other_layer": len(kernels)}
    nothing = {name: np.full([shapes[a] for a in quantity.axes], np.nan) for name, quantity in QUANTITIES.items()}
    if not kernels.any():
        return nothing | {"spectral_norm": np.zeros(len(kernels)), "defect": np.ones(len(kernels))}
    defined = [name for name, quantity in QUANTITIES.items() if (quantity.k or 0) < min(matrices.shape[1:])]
    return nothing | {name: ORACLES[name](matrices) for name in defined}
