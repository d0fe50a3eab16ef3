"""Uploaded voices: decodes recordings and stores them on disk."""
