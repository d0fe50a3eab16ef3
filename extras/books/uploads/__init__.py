"""Books in the service: uploads, plans, the reading queue, and the results."""
