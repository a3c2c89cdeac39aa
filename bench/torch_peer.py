"""The PyTorch peers: the same network, initial distribution, data, batches and Adam, as people write them.

`eager` trains run after run, `compiled` the same through `torch.compile`, `ensemble` several runs at once through
`torch.func`. A process of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional

from bench.contender import FAMILIES, Trainer, batches, examples, serve

LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class ResidualMLP(nn.Module):
    """`h <- h + relu(W h)` between two linear maps; `nn.Linear` draws U(+-1/sqrt(d_in)), our `torch_uniform`."""

    def __init__(self, network: Mapping[str, int]) -> None:
        super().__init__()
        width = network["width"]
        self.input = nn.Linear(network["features"], width, bias=False)
        self.hidden = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(network["depth"])])
        self.output = nn.Linear(width, network["classes"], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (example, class)."""
        h = self.input(x)
        for layer in self.hidden:
            h = h + functional.relu(layer(h))
        return self.output(h)

    def kernels(self) -> list[Tensor]:
        """Return the hidden matrices."""
        return [layer.weight for layer in self.hidden]


def leading_cosines(matrices: Tensor) -> dict[str, np.ndarray]:
    """Return |cos| of adjacent v1 and u1 (run, pair) of each family of matrices (family, run, layer, out, in)."""
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    sides = {"v1": vh[..., 0, :], "u1": u[..., 0]}
    cosines = {side: (x[..., 1:, :] * x[..., :-1, :]).sum(-1).abs() for side, x in sides.items()}
    return {
        f"{family}_{side}": values[i].cpu().numpy()
        for side, values in cosines.items()
        for i, family in enumerate(FAMILIES)
    }


class Eager:
    """One run after another, with PyTorch's fused Adam."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.network = asked["network"]
        self.data = {name: torch.from_numpy(values).to(DEVICE) for name, values in examples().items()}

    def begin(self, seeds: Sequence[int]) -> None:
        """Start anew with one seed."""
        (seed,) = seeds
        torch.manual_seed(seed)
        self.model = ResidualMLP(self.network).to(DEVICE)
        self.forward = self.called(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE, fused=True)
        self.initial = [w.detach().clone() for w in self.model.kernels()]
        self.cumulative = [torch.zeros_like(w) for w in self.initial]
        count = len(self.data["x_train"])
        self.indices = batches(lambda: torch.randperm(count, device=DEVICE), count, self.network["batch_size"])

    def called(self, model: nn.Module) -> Any:
        """Return what a step calls for the logits."""
        return model

    def train(self, steps: int, with_history: bool) -> None:
        """Take so many steps."""
        for chosen in itertools.islice(self.indices, steps):
            self.step(self.data["x_train"][chosen], self.data["y_train"][chosen])
            if with_history:
                torch._foreach_add_(self.cumulative, [w.grad for w in self.model.kernels()])
        _wait()

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take one step on a batch."""
        self.optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(self.forward(x), y).backward()
        self.optimizer.step()

    def measure(self) -> dict[str, np.ndarray]:
        """Return continuity of the four families and the loss."""
        kernels = self.model.kernels()
        loss = functional.cross_entropy(self.model(self.data["x_eval"]), self.data["y_eval"])
        gradients = torch.autograd.grad(loss, kernels)
        weights = [w.detach() for w in kernels]
        updates = torch._foreach_sub(weights, self.initial)
        families = torch.stack([torch.stack(list(x)) for x in (weights, updates, gradients, self.cumulative)])
        return leading_cosines(families[:, None]) | {"train_loss": loss.detach().cpu().numpy()[None]}


class Compiled(Eager):
    """The same with the forward and backward pass compiled."""

    def called(self, model: nn.Module) -> Any:
        """Return the compiled model."""
        return torch.compile(model)


class Ensemble:
    """Several runs at once: `vmap` of the gradient over stacked weights, and Adam by hand."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.network = asked["network"]
        self.data = {name: torch.from_numpy(values).to(DEVICE) for name, values in examples().items()}
        self.base = ResidualMLP(self.network).to("meta")
        self.gradients = vmap(grad_and_value(self.loss))
        self.shared_gradients = vmap(grad_and_value(self.loss), in_dims=(0, None, None))

    def loss(self, weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of one run."""
        return functional.cross_entropy(functional_call(self.base, weights, (x,)), y)

    def begin(self, seeds: Sequence[int]) -> None:
        """Start anew with these seeds, one run each."""
        models, orders = [], []
        count = len(self.data["x_train"])
        for seed in seeds:
            torch.manual_seed(seed)
            models.append(ResidualMLP(self.network).to(DEVICE))
            generator = torch.Generator(DEVICE).manual_seed(seed)
            orders.append(lambda generator=generator: torch.randperm(count, generator=generator, device=DEVICE))
        self.weights = {name: w.detach() for name, w in stack_module_state(models)[0].items()}
        self.first = [torch.zeros_like(w) for w in self.weights.values()]
        self.second = [torch.zeros_like(w) for w in self.weights.values()]
        self.steps = 0
        self.initial = [w.clone() for w in self.kernels(self.weights)]
        self.cumulative = [torch.zeros_like(w) for w in self.initial]
        self.indices = zip(*(batches(order, count, self.network["batch_size"]) for order in orders), strict=True)

    def kernels(self, tree: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the hidden matrices (run, out, in) of weights or gradients."""
        return [tree[f"hidden.{layer}.weight"] for layer in range(self.network["depth"])]

    def train(self, steps: int, with_history: bool) -> None:
        """Take so many steps of all runs."""
        for chosen in itertools.islice(self.indices, steps):
            rows = torch.stack(chosen)
            gradients, _ = self.gradients(self.weights, self.data["x_train"][rows], self.data["y_train"][rows])
            self.update([gradients[name] for name in self.weights])
            if with_history:
                torch._foreach_add_(self.cumulative, self.kernels(gradients))
        _wait()

    def update(self, gradients: list[Tensor]) -> None:
        """Take Adam's step."""
        self.steps += 1
        torch._foreach_lerp_(self.first, gradients, 1 - BETA1)
        torch._foreach_mul_(self.second, BETA2)
        torch._foreach_addcmul_(self.second, gradients, gradients, 1 - BETA2)
        scale = torch._foreach_sqrt(self.second)
        torch._foreach_div_(scale, (1 - BETA2**self.steps) ** 0.5)
        torch._foreach_add_(scale, EPSILON)
        torch._foreach_addcdiv_(
            list(self.weights.values()), self.first, scale, value=-LEARNING_RATE / (1 - BETA1**self.steps)
        )

    def measure(self) -> dict[str, np.ndarray]:
        """Return continuity of the four families and the losses."""
        gradients, losses = self.shared_gradients(self.weights, self.data["x_eval"], self.data["y_eval"])
        weights = self.kernels(self.weights)
        updates = torch._foreach_sub(weights, self.initial)
        families = (weights, updates, self.kernels(gradients), self.cumulative)
        stacked = torch.stack([torch.stack(list(x), dim=1) for x in families])
        return leading_cosines(stacked) | {"train_loss": losses.cpu().numpy()}


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


KINDS: dict[str, type[Trainer]] = {"eager": Eager, "compiled": Compiled, "ensemble": Ensemble}


def build(asked: Mapping[str, Any]) -> Trainer:
    """Return the trainer of the kind that is asked for, with so many threads."""
    if asked.get("threads"):
        torch.set_num_threads(asked["threads"])
    kind: Any = KINDS[asked["kind"]]
    return kind(asked)


if __name__ == "__main__":
    serve(build)
