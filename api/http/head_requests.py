"""HEAD wherever GET is (RFC 9110, section 9.3.2): same status and headers, no body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Asks the routes for GET and ends the response after its headers: one may have no end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        answered = False

        async def receiving() -> Message:
            # Whoever streams looks here, and stops.
            return {"type": "http.disconnect"} if answered else await receive()

        async def sending(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                await send(message)
                answered = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receiving, sending)
