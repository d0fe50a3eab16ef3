"""The GPU probe: child processes that run operations on a GPU before it is used."""
