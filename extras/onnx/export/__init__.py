"""Exports a model folder or checkpoint as an ONNX voice."""
