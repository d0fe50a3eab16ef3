"""Atomic files, checksums, locks."""
