"""Training steps and speech as CUDA graphs: a fast GPU no longer waits for the host."""

GRAPHS = "extras.graphs.captured_step"
SPEECH_GRAPHS = "extras.graphs.speech"
