"""Ours against Coqui, side by side in one run; and the judges of the embedded voice."""
