"""CPUs and GPUs: selection, health, errors and utilization."""
