"""CPUs and GPUs: selection, health and errors."""
