"""Training the DVAE."""
