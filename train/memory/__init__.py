"""Finds how large a batch fits this machine."""
