"""The HTTP server below the routes: socket, connections, OpenAPI document."""
