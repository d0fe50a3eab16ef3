"""The HTTP service: speaks with a voice, and serves the listening page. Never imports train."""
