"""Stalls, signals and lost GPUs: how a run ends without losing its state."""
