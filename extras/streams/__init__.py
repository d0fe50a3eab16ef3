"""Text that is spoken while it is written, over WebSockets: ElevenLabs' protocol and vLLM-omni's."""

SERVICE = "extras.streams.http"
