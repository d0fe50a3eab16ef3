"""The GPU probe: child processes that test operations on a GPU before it is used."""
