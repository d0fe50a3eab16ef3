"""The HTTP service: speaks with a voice and serves the web page.

It never imports `train`.
"""
