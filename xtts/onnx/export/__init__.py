"""A model folder or checkpoint becomes an ONNX voice."""
