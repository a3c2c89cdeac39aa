"""How a run learns: gradient transformations built from traced hyperparameters."""
