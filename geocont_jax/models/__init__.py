"""What is trained: pure functions of parameters and inputs."""

from geocont_jax.models.registry import MODELS, ModelKind, paper_orientation

__all__ = ["MODELS", "ModelKind", "paper_orientation"]
