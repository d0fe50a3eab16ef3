"""Speech from a model, a voice and a text: whole, streamed or batched."""
