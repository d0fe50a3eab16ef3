"""Speaking with ONNX Runtime, without torch."""
