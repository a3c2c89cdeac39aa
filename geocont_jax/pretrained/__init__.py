"""Real checkpoints: readers of safetensors and GGUF, architectures as data, one matrix at a time through `geometry`."""
