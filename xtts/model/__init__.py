"""The network: GPT and vocoder, their shapes, and loading them from disk."""
