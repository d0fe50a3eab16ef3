"""Uploaded voices: decoding recordings, storing them on disk."""
