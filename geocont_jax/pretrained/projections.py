"""The seven matrices of a transformer layer, and how each of them touches the residual stream."""

from geocont_jax.geometry.shared_basis import Side

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
"""In the order in which they are told everywhere."""

ROLES = {
    "q": "reads",
    "k": "reads",
    "v": "value",
    "o": "writes",
    "gate": "reads",
    "up": "reads",
    "down": "writes",
}
"""As the paper groups them, readers, writers, and the value, which reads but stands apart. arXiv 2605.04971, Fig. 3."""

SIDES: dict[str, Side] = {name: "u" if role == "writes" else "v" for name, role in ROLES.items()}
"""The side on which a matrix meets the residual stream: its input (`v`) or its output (`u`)."""
