"""This computer: settings, storage, devices, ONNX Runtime, and the doctor. Knows no model."""
