"""`python -m xtts explain MODEL.onnx`: which node of a model runs where, and is that normal."""
