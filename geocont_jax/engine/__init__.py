"""Effects: processes, devices, compilation, checkpoints, the store, progress."""
