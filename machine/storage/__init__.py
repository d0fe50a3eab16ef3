"""Files that are whole or absent, their checksums, and locks."""
