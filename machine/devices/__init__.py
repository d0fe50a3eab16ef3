"""CPUs and GPUs: selection, health, errors, utilization."""
