"""What is asked: the grid file, its schema, the runs it stands for. No JAX arrays."""
