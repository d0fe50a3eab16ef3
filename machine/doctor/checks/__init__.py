"""The doctor's checks: readings in, findings with their remedies out."""
