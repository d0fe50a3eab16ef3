"""The trainer's runs as the service sees them, and which epoch speaks."""
