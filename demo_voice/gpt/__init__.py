"""Pretraining the GPT."""
