"""Model, voice and text become sound: whole, streamed, or batched."""
