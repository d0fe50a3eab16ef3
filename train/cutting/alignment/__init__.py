"""Which words of a text are spoken when: the text read, followed and placed in the sound."""
