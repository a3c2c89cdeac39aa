"""The paper's toy network: `h <- r h + phi(norm(h) W)` between a linear input and a linear output map."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.models.activations import ACTIVATIONS, vector_norm
from geocont_jax.models.branches import apply_branch
from geocont_jax.models.initializers import INITIALIZERS
from geocont_jax.models.linear import affine
from geocont_jax.models.norms import EPSILON, NORMS

_ACTIVATIONS = tuple(ACTIVATIONS.values())
_NORMS = tuple(NORMS.values())


class ResidualMLP(nn.Module):
    """A residual MLP over flat inputs whose ingredients are traced hyperparameters.

    `h_0 = x W_in`, `h_{l+1} = r h_l + phi(norm(h_l) W_l)` for l = 0..depth-1, `logits = h_depth W_out`.
    `hypers` holds scalars by name: `residual` (r), `activation` and `norm` (indices into `ACTIVATIONS` and
    `NORMS`), `activation_scale`, `init_scale` (multiplies the hidden matrices at initialisation), `init_std`.
    Biases, where there are any, start at zero. Source: arXiv 2605.04971; block form as in docs/architecture.md.
    """

    num_classes: int
    depth: int
    width: int
    bias: bool
    initializer: str
    unroll: int = 1

    def __call__(self, x: Array, hypers: Mapping[str, Array]) -> Array:
        """Return the logits (example, class) of `x` (example, feature)."""
        return self._forward(x, hypers, with_norms=False)[0]

    def preactivation_norms(self, x: Array, hypers: Mapping[str, Array]) -> Array:
        """Return the mean length (layer,) of what each activation gets, `|norm(h_l) W_l|`, over `x`."""
        return self._forward(x, hypers, with_norms=True)[1]

    @nn.compact
    def _forward(self, x: Array, hypers: Mapping[str, Array], with_norms: bool) -> tuple[Array, Any]:
        h = self._affine("input", x, self.width, hypers)
        kernels = self.param("hidden_kernel", self._hidden_init, hypers)
        biases = self._bias("hidden_bias", (self.depth, self.width))

        def layer(h: Array, weights: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
            z = affine(apply_branch(_NORMS, hypers["norm"], h, jnp.float32(EPSILON)), *weights)
            branch = apply_branch(_ACTIVATIONS, hypers["activation"], z, hypers["activation_scale"])
            return hypers["residual"] * h + branch, jnp.mean(vector_norm(z)) if with_norms else None

        h, norms = lax.scan(layer, h, (kernels, biases), unroll=self.unroll)
        return self._affine("output", h, self.num_classes, hypers), norms

    def _affine(self, name: str, x: Array, features: int, hypers: Mapping[str, Array]) -> Array:
        shape = (x.shape[-1], features)
        kernel = self.param(f"{name}_kernel", INITIALIZERS[self.initializer], shape, hypers["init_std"])
        return affine(x, kernel, self._bias(f"{name}_bias", (features,)))

    def _bias(self, name: str, shape: tuple[int, ...]) -> Array | None:
        return self.param(name, nn.initializers.zeros, shape) if self.bias else None

    def _hidden_init(self, key: Array, hypers: Mapping[str, Array]) -> Array:
        # One key per layer by its number: a deeper net with the same seed begins with the same layers.
        def one(layer: Array) -> Array:
            shape = (self.width, self.width)
            return INITIALIZERS[self.initializer](jax.random.fold_in(key, layer), shape, hypers["init_std"])

        return hypers["init_scale"] * jax.vmap(one)(jnp.arange(self.depth))


def build(section: Any, num_features: int, num_classes: int, unroll: int) -> ResidualMLP:
    """Build the network that the grid's `model` section describes; the input width follows from the data."""
    return ResidualMLP(
        num_classes, section.depth, section.width, section.bias, section.init, min(unroll, section.depth)
    )


def measured_kernels(params: Mapping[str, Array]) -> dict[str, Array]:
    """Return the measured kernels, `hidden` (layer, d_in, d_out), of parameters or of a tree shaped like them."""
    return {"hidden": params["hidden_kernel"]}
