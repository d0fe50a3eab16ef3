"""Speech with ONNX Runtime, without torch."""
