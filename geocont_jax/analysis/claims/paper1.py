"""The claims of arXiv 2605.04971 that its toy network can decide, and what this project adds to them."""

from geocont_jax.analysis.claims.paper1_forming import FORMING
from geocont_jax.analysis.claims.paper1_keeping import KEEPING

PAPER_1 = (*FORMING, *KEEPING)
"""Every claim, in the order of the scoreboard: a new one is an entry in either half."""
