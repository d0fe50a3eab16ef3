"""The doctor's checks: readings in, findings with remedies out. Pure."""
