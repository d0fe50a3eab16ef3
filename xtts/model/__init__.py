"""The network: GPT and vocoder, their shapes, and how they are loaded from disk."""
