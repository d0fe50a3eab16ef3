"""The optimizer, and the weights that it trains."""
