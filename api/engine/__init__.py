"""The request queue, and the speaking process behind it."""
