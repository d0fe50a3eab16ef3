"""The server below the routes: its socket, its connections, its OpenAPI document."""
