"""The linear map of every layer, with a backward pass that suits the processor."""

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.custom_vjp
def linear(x: Array, kernel: Array) -> Array:
    """Return `x @ kernel`.

    Shapes: `x` (example, d_in), `kernel` (d_in, d_out), result (example, d_out).
    The value and the gradient are those of the plain product; only the order in which a CPU reads memory for
    the kernel's gradient differs (see `_kernel_gradient_cpu`).
    """
    return x @ kernel


def _forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ kernel, (x, kernel)


def _kernel_gradient(x: Array, cotangent: Array) -> Array:
    return x.T @ cotangent


def _kernel_gradient_cpu(x: Array, cotangent: Array) -> Array:
    # XLA's CPU product of two operands that both have the batch first runs at about half speed; a transposed
    # copy, kept from being folded back into the product, restores it (docs/performance.md).
    return lax.optimization_barrier(x.T) @ cotangent


def _backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    x, kernel = saved
    kernel_gradient = lax.platform_dependent(x, cotangent, cpu=_kernel_gradient_cpu, default=_kernel_gradient)
    return cotangent @ kernel.T, kernel_gradient


linear.defvjp(_forward, _backward)


def affine(x: Array, kernel: Array, bias: Array | None) -> Array:
    """Return `x @ kernel + bias`, or without the bias where it is None."""
    product = linear(x, kernel)
    return product if bias is None else product + jnp.broadcast_to(bias, product.shape)
