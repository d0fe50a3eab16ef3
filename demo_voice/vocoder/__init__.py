"""Training the vocoder."""
