"""The HTTP server below the routes: socket and connections."""
