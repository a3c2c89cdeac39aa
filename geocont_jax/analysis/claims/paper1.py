"""The claims of arXiv 2605.04971 on its toy network and on pretrained models, and what this project adds to them."""

from geocont_jax.analysis.claims.paper1_forming import FORMING
from geocont_jax.analysis.claims.paper1_keeping import KEEPING
from geocont_jax.analysis.claims.paper1_pretrained import PRETRAINED_CLAIMS

TOY_CLAIMS = (*FORMING, *KEEPING)
"""The claims that runs of the toy network decide."""

PAPER_1 = (*TOY_CLAIMS, *PRETRAINED_CLAIMS)
"""Every claim, in the order of the scoreboard: a new one is an entry in one of the three."""
