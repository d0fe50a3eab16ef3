"""Training the codec (DVAE)."""
