"""Model, voice and text become sound: whole, streamed, or many at once."""
