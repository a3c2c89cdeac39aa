"""One run: optimiser, state, step and loop. Pure: no files, no devices, no vmap."""
