"""The routes and state of the dialects, for `api.parts`."""

from extras.dialects import (
    alltalk,
    captions,
    coqui_server,
    openai_lists,
    openai_voices,
    xtts_api_server,
    xtts_streaming_server,
)
from extras.dialects.memory import Memory as Part

ROUTERS = (
    openai_lists.router,
    openai_voices.router,
    xtts_api_server.router,
    alltalk.router,
    coqui_server.router,
    xtts_streaming_server.router,
    captions.router,
)
__all__ = ["ROUTERS", "Part"]
