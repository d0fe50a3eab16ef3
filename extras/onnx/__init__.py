"""A voice as ONNX graphs: exported with torch, and run without it.

Not to be mixed up with the package `onnx`, which `import onnx` means here as everywhere.
"""

VOICES = "extras.onnx.voices"
