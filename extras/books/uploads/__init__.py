"""Books that are read aloud by the service: uploads, plans, the queue, what was written."""
