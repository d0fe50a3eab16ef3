"""Stalls, signals and lost GPUs: ending a run without losing its state."""
