"""The pretraining of the GPT."""
