"""How large a batch may be on this machine."""
