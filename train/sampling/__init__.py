"""Samples, spoken by each epoch's weights."""
