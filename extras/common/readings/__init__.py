"""Readings of this machine: drivers, files, programs and libraries, not judged yet."""
