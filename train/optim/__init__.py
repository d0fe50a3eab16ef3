"""The optimizer, and which weights are trained in which form."""
