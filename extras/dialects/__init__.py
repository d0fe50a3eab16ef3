"""Other servers' HTTP APIs, one module each, with the engine of /v1/audio/speech."""

SERVICE = "extras.dialects.http"
