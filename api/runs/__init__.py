"""The trainer's run folders as the service sees them, and which epoch is served."""
