"""The request queue and the speaking process."""
