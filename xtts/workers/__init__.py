"""Worker processes that speak for the trainer and the service, and their protocols."""
