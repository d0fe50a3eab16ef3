"""Files on disk: atomic writes, checksums and locks."""
