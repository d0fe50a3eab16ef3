"""The HTTP service: speaks with a voice, and serves the listening page.

It never imports `train`.
"""
