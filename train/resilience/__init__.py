"""Stalls, signals and lost GPUs: ends a run without losing its state."""
