"""Processes that speak for a trainer or a service, and their protocols."""
