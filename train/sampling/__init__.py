"""Samples spoken by an epoch's weights while training goes on."""
