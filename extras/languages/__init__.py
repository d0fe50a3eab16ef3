"""`python -m train extend`: adds a language that the base model has never spoken."""
