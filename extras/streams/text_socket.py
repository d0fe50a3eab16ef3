"""One WebSocket on which text arrives: its messages, its key, its place among the connections."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import TypeVar

from fastapi import WebSocket
from pydantic import BaseModel, ValidationError
from starlette.websockets import WebSocketDisconnect

from api.errors import APIError, fault_sentence, problem_response, without_paths
from api.gate import given_key_refusal, key_in
from api.http.connections import ConnectionLimits
from api.http.web_sockets import SOCKET, BoundedWebSocket
from api.state import AppState, api_key_of
from machine.storage.files import JsonObject

Message = TypeVar("Message", bound=BaseModel)
_MAX_SEND_SECONDS = 30.0
# RFC 6455, 7.4.1: the end of a conversation, and a message that the server refuses.
CLOSE_NORMAL, CLOSE_REFUSED = 1000, 1008
# The longest reason that a frame can carry, in bytes.
_MAX_REASON_BYTES = 123


class TextSocket:
    """An accepted WebSocket."""

    def __init__(self, websocket: WebSocket, state: AppState) -> None:
        self._websocket = websocket
        self._connection: BoundedWebSocket = websocket.scope["state"][SOCKET]
        self._key = None if key_in(websocket.headers) else api_key_of(state.settings)
        self._speaking = 0
        self.address = state.caller_of(websocket)

    async def messages(self) -> AsyncIterator[JsonObject]:
        """The JSON objects that arrive, until the client leaves. Raises APIError for anything else,
        and for a first message without the key if no header had it."""
        limits: ConnectionLimits = self._connection.counted_connections.limits
        while True:
            try:
                async with asyncio.timeout(limits.head_seconds if self._key else None):
                    received = await self._websocket.receive()
            except TimeoutError:
                raise APIError(401, "unauthorized", "The message with the API key did not arrive.") from None
            if received["type"] == "websocket.disconnect":
                return
            message = _parse_object(received.get("text"))
            if self._key is not None:
                given_key = message.get("xi_api_key") or message.get("authorization") or ""
                if refusal := given_key_refusal(self._key, str(given_key).removeprefix("Bearer ")):
                    raise refusal
                self._key = None
            yield message

    async def send(self, message: "Mapping[str, object] | bytes") -> None:
        """Sends a JSON object or bytes. Raises ConnectionError once the client has left, or does not
        read for half a minute."""
        try:
            async with asyncio.timeout(_MAX_SEND_SECONDS):
                if isinstance(message, bytes):
                    await self._websocket.send_bytes(message)
                else:
                    await self._websocket.send_text(json.dumps(message, ensure_ascii=False))
        except TimeoutError:
            self._connection.drop("not_read")
            raise ConnectionError from None
        except (WebSocketDisconnect, RuntimeError) as error:  # starlette's, after the close
            raise ConnectionError from error

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        """Ends the conversation."""
        short = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._websocket.close(code, short)

    @contextlib.contextmanager
    def speaking(self) -> Iterator[None]:
        """Counts the connection as being answered while it speaks: while it waits for text, it takes
        no place from others. Raises APIError."""
        if not self._connection.admit():
            text = "Too many requests are open, from this address or in total."
            raise APIError(503, "too_many_connections", text, retry_after=1)
        self._speaking += 1
        try:
            yield
        finally:
            self._speaking -= 1
            if not self._speaking:
                self._connection.mark_waiting()


async def until_one_ends(*coroutines: Coroutine[None, None, None]) -> None:
    """Runs coroutines until the first one ends, and cancels the others. Raises its error."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def refuse_handshake(websocket: WebSocket, refusal: APIError) -> None:
    """Refuses a WebSocket before it is accepted, as a request over HTTP is refused."""
    refusal_response = problem_response(refusal, websocket.scope)
    await refusal_response(websocket.scope, websocket.receive, websocket.send)


def parse_message(kind: type[Message], received: JsonObject) -> Message:
    """The message in an object. Raises APIError for a wrong field."""
    try:
        return kind.model_validate(received)
    except ValidationError as error:
        fault: JsonObject = dict(error.errors()[0])
        param = str(fault["loc"][0])
        raise APIError(422, "invalid_request", fault_sentence(fault, param), param=param) from None


def refusal_text(refusal: APIError) -> str:
    """The message of a refusal for its client."""
    return without_paths(refusal.detail)


def _parse_object(text: object) -> JsonObject:
    try:
        message = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise APIError(
            400, "invalid_json", 'Each message must be a JSON object, such as {"text": "Hello. "}.'
        )
    return message
