"""`python -m xtts explain MODEL.onnx`: which node runs where, and whether that is normal."""
