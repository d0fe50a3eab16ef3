"""Speech synthesizers that speak the training data, and their timings."""
