"""The routes of text that is spoken while it is written, for `api.parts`."""

from extras.streams import elevenlabs, elevenlabs_sockets, vllm_omni

ROUTERS = (elevenlabs.router, elevenlabs_sockets.router, vllm_omni.router)
