"""This computer: settings, storage, processes and devices.

Nothing in this package knows the model.
"""
