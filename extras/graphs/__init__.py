"""Training steps as CUDA graphs: on a fast GPU, small steps no longer wait for the host."""

GRAPHS = "extras.graphs.captured_step"
