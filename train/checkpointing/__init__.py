"""Checkpoints: written, pruned, and resumed from."""
