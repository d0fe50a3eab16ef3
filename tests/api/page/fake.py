"""A fake API server for fast page tests. It answers from a `World`, which tests change."""

import base64
import json
import mimetypes
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from api.page_files import page, styles
from api.parts import PAGE, page_folders
from api.routes.status import POLICY
from tests.api.page.world import World, speech, wav
from xtts import encoding
from xtts.marks import HEADER, UNNAMED


class Answers(BaseHTTPRequestHandler):
    """One request, answered from `self.server.world`."""

    protocol_version = "HTTP/1.1"

    def parse_request(self) -> bool:
        """Removes the path of the proxy; nothing is above it."""
        parsed = super().parse_request()
        if parsed and self.world.below:
            inside = self.path.startswith(f"{self.world.below}/")
            self.path = self.path.removeprefix(self.world.below) if inside else "/above"
        return parsed

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/":
            return self.body(page(frozenset(self.world.extras)).encode(), "text/html")
        if path.startswith("/page/"):
            return self.static(path.removeprefix("/page/"))
        if self.refused():
            return None
        answers = {
            "/status": self.world.status,
            "/v1/runs": self.world.runs,
            "/v1/runs/current/evaluation": self.world.details,
            "/v1/voices": lambda: {"voices": self.world.voices},
            "/v1/datasets": lambda: {"datasets": [], "space": {"used": 0, "most": 1, "free": 1}},
            "/v1/trainings": lambda: {"trainings": [], "allowed": False, "message": ""},
            "/v1/runs/current": lambda: {"bytes": 2_500_000, "frees": 2_500_000, "why_kept": "."},
            "/v1/books": lambda: {"books": [], "space": {"used": 0, "most": 1, "free": 1}},
            "/v1/models": lambda: {"object": "list", "data": [{"id": "sotaque", "licence": "MIT"}]},
        }
        if (told := self.world.acts("GET", self.path, b"")) is not None:
            return self.json(told)
        if path in self.world.answers:
            return self.json(self.world.answers[path])
        if path in answers:
            return self.json(answers[path]())
        if path == "/events":
            return self.events()
        if path.endswith("/metrics"):
            since = int(query.removeprefix("since=") or 0)
            records = self.world.records
            return self.json({"records": records[since:], "next": len(records)})
        if path.endswith(".wav"):
            return self.sound(path)
        return self.problem(404, f"There is no {path}.")

    def sound(self, path: str) -> None:
        if match := re.fullmatch(r"/v1/runs/current/candidates/(\w+[\d.]*)/sentences/(\d+)\.wav", path):
            return self.body(wav(speech(*sentence_of(match[1], int(match[2])))), "audio/wav")
        if re.fullmatch(r"/v1/voices/[\w%]+/preview\.wav", path):
            return self.body(wav(speech(3.0, 205)), "audio/wav")
        if match := re.fullmatch(r"/v1/runs/current/epochs/(\d+)/(output|reference)\.wav", path):
            number, which = int(match[1]), match[2]
            of = speech(3.0, 120 + 10 * number) if which == "output" else speech(3.6, 205, 0.6)
            return self.body(wav(of), "audio/wav")
        return self.problem(404, f"There is no {path}.")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.refused():
            return None
        if (told := self.world.acts("POST", self.path, body)) is not None:
            return self.json(told)
        promoting = r"/v1/runs/current/(?:epochs/|candidates/epoch_)(\d+)[\w.]*/promote"
        if match := re.fullmatch(promoting, self.path):
            self.world.promoted = int(match[1])
            return self.json({"served": self.world.served})
        if self.path == "/v1/voices":
            self.world.uploads.append(body)
            name = re.search(rb'name="name"\r\n\r\n(.*?)\r\n', body)[1].decode()
            voice = {
                "id": f"v{len(self.world.voices)}",
                "name": name,
                "origin": "upload",
                "created": "2026-01-02T03:04:05Z",
                "duration_seconds": 7.25,
                "preview": f"/v1/voices/v{len(self.world.voices)}/preview.wav",
                "quality": {"word": "usable", "remarks": ["It is quiet."]},
            }
            self.world.voices.append(voice)
            return self.json(voice)
        return self.speak(json.loads(body))

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return self.json(self.world.acts("PUT", self.path, body))

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.refused():
            return None
        identity = self.path.rpartition("/")[2]
        voice = next(voice for voice in self.world.voices if voice["id"] == identity)
        voice["name"] = body["name"]
        return self.json(voice)

    def do_DELETE(self) -> None:
        if self.refused():
            return None
        if self.path == "/v1/promotion":
            self.world.promoted = None
        else:
            gone = self.path.rpartition("/")[2]
            self.world.voices = [voice for voice in self.world.voices if voice["id"] != gone]
        return self.body(b"", "application/json", status=204)

    def speak(self, body: dict[str, Any]) -> None:
        self.world.bodies.append(body)
        self.world.spoken_with.append(self.path)
        if body["response_format"] not in self.world.formats:
            return self.problem(400, f"response_format {body['response_format']!r} is not made.")
        samples = speech(2.4, 150)
        if body.get("stream_format") == "sse":
            return self.speak_events(body, samples)
        pcm = (samples * 32767).astype("<i2").tobytes()
        form = body["response_format"]
        return self.body(encoding.encode(form, pcm), encoding.MEDIA_TYPES[form])

    def speak_events(self, body: dict[str, Any], samples: np.ndarray) -> None:
        """OpenAI's events and our word times, which come after half of the sound."""
        made = wav(samples) if body["response_format"] == "wav" else None
        pcm = made or (samples * 32767).astype("<i2").tobytes()
        self.start(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        # Odd chunk sizes split a sample at nearly every boundary.
        for at in range(0, len(pcm), 9_601):
            if self.world.breaks_off and at:  # As the service: no last chunk.
                # A busy browser discards unread data when a stream breaks.
                time.sleep(0.5)
                self.close_connection = True
                return None
            if at == 9_601 * 4 and (words := words_of(body["input"])):
                self.tell({"type": "speech.audio.words", "words": words})
            sound = base64.b64encode(pcm[at : at + 9_601]).decode()
            self.tell({"type": "speech.audio.delta", "audio": sound})
            time.sleep(0.03)
            if at == 0:
                time.sleep(self.world.pause_seconds)
        self.tell({"type": "speech.audio.done", "timed": True})
        return self.chunk(b"")

    def tell(self, event: dict[str, Any]) -> None:
        self.chunk(f"data: {json.dumps(event)}\n\n".encode())

    def events(self) -> None:
        if not self.world.events:
            return self.problem(404, "There are no events.")
        self.start(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        told = len(self.world.news)
        while not self.server.closing:
            with self.world.changed:
                self.world.changed.wait(0.2)
                new = self.world.news[told:]
            told += len(new)
            self.chunk(b": still here\n\n")
            for event, data in new:
                self.chunk(f"event: {event}\ndata: {data}\n\n".encode())
        return self.chunk(b"")

    def refused(self) -> bool:
        if self.world.key and self.headers.get("Authorization") != f"Bearer {self.world.key}":
            self.problem(401, "An API key is required. Send it as `Authorization: Bearer …`.")
            return True
        if fault := self.world.fault:
            self.problem(fault["status"], fault["detail"])
        return bool(self.world.fault)

    def static(self, name: str) -> None:
        if name == "styles.css":
            return self.body(styles().encode(), "text/css")
        extra, _, inner = name.partition("/")
        path = page_folders()[extra] / inner if inner else PAGE / name
        if not path.is_file():
            return self.problem(404, f"There is no {name}.")
        return self.body(path.read_bytes(), str(mimetypes.guess_type(name)[0]))

    def problem(self, status: int, detail: str) -> None:
        told = {"type": "about:blank", "title": "refused", "status": status, "detail": detail}
        self.body(json.dumps(told).encode(), "application/problem+json", status=status)

    def json(self, content: Any) -> None:
        self.body(json.dumps(content).encode(), "application/json")

    def body(self, content: bytes, kind: str, *, status: int = 200) -> None:
        self.start(status, {"Content-Type": kind, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (
            headers
            | {"Content-Security-Policy": POLICY, "X-Model": self.world.spoken_by, HEADER: UNNAMED.text}
        ).items():
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    @property
    def world(self) -> World:
        return self.server.world

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass  # The page closed the connection, as it may.

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def words_of(text: str) -> list[dict[str, Any]]:
    """The words of a text, 0.4 s each, starting at 0.2 s."""
    words = [word.strip(".,") for word in text.split()]
    return [
        {"word": word, "start_time": 0.2 + 0.4 * number, "end_time": 0.6 + 0.4 * number}
        for number, word in enumerate(words)
    ]


def sentence_of(candidate: str, number: int) -> tuple[float, float, float]:
    """Length, pitch and level of a candidate's sentence, different for each candidate."""
    which = sum(map(ord, candidate)) % 7
    return 2.0 + 0.2 * number + 0.1 * which, 110.0 + 15 * which, 0.1 + 0.1 * which


class Fake(ThreadingHTTPServer):
    daemon_threads = True
    closing = False

    def __init__(self, world: World, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answers)
        self.world = world


@contextmanager
def serving(world: World | None = None) -> Iterator[tuple[str, World]]:
    """A fake server on a free port: its address and its world."""
    server = Fake(world or World())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.world
    finally:
        server.closing = True
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    Fake(World(), 8006).serve_forever()
