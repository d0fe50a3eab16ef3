"""A voice as ONNX graphs: written from a model folder, spoken by ONNX Runtime, without torch where
that is to be.

Not to be mixed up with the package `onnx`, which `import onnx` means here as everywhere.
"""
