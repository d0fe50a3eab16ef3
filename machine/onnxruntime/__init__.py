"""What `machine.onnxruntime.sessions` is made of: which providers there are, what came of trying
one, and what that means."""
