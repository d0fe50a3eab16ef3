"""Uploaded voices."""
