"""The published model XTTS-v2 and the download of its files."""
