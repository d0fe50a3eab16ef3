"""This computer: settings, storage, devices, ONNX Runtime and the doctor.

Nothing in this package knows the model.
"""
