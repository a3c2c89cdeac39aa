"""Symmetries of the loss: changes of the parameters that leave the function as it is, and how many there are."""
