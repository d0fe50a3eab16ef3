"""Synthesizes a text with a model and a voice: whole, streamed or batched."""
