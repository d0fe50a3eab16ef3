"""Other servers' HTTP APIs, one module for each; all of them speak as /v1/audio/speech does."""

SERVICE = "extras.dialects.http"
