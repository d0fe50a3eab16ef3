"""Worker processes that speak for the trainer and the service, with their protocols."""
