"""The speaking process and the queue before it."""
