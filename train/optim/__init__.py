"""The optimizer, and which weights learn in which form."""
