"""The network: GPT, vocoder, their shapes, and loading them from disk."""
