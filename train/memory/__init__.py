"""Finds the largest batch that fits in memory."""
