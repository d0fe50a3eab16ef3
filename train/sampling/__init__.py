"""Speaks a sample with each epoch's weights."""
