"""This computer: settings, storage, devices, ONNX Runtime and readings of the system.

Nothing in this package knows the model.
"""
