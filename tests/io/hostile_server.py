"""An HTTP server on this machine that misbehaves on demand, and remembers what it was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 1 << 12


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request.

    Attributes:
        body: the whole file.
        status: of the answer, when no part of the file is asked for.
        headers: more of them; they replace the server's own.
        cut: bytes of the body after which the connection is broken off; None to send all.
        ranges: serve parts of the file.
        states_length: send Content-Length and the total in Content-Range.
        slow: seconds before each piece of the body.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    ranges: bool = True
    states_length: bool = True
    slow: float = 0.0


@dataclass(slots=True)
class Asked:
    """One request, and how many bytes of a body it was sent."""

    path: str
    range: str
    login: str
    accept: str
    sent: int = 0


class HostileServer:
    """Answers each path by its script; the last answer of a script is given again and again."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self._scripts: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()

    def script(self, path: str, *answers: Answer) -> str:
        """Set the answers of a path, first request first; return its address."""
        with self._lock:
            self._scripts[path] = list(answers)
        return f"{self.url}{path}"

    def next_answer(self, asked: Asked) -> Answer:
        """Note a request and return what to do with it."""
        with self._lock:
            self.asked.append(asked)
            script = self._scripts.get(asked.path, [Answer(status=404, body=b"nothing here")])
            return script.pop(0) if len(script) > 1 else script[0]

    def ranges(self, path: str) -> list[str]:
        """Return the Range header of every request of a path, '' where there was none."""
        return [asked.range for asked in self.asked if asked.path == path]

    def wait_for_bytes(self, path: str, count: int) -> None:
        """Return as soon as one request of the path was sent so many bytes."""
        deadline = time.monotonic() + 20
        while not any(asked.path == path and asked.sent >= count for asked in list(self.asked)):
            assert time.monotonic() < deadline, f"nobody fetched {count} bytes of {path}"
            time.sleep(0.01)


@contextmanager
def serving() -> Iterator[HostileServer]:
    """Run a server on a free port until the block ends."""

    class Handler(_Handler):
        owner: HostileServer

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    Handler.owner = HostileServer(listener.server_port)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Handler.owner
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: HostileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = Asked(
            self.path,
            self.headers.get("Range", ""),
            self.headers.get("Authorization", ""),
            self.headers.get("Accept", ""),
        )
        answer = self.owner.next_answer(asked)
        self.close_connection = True
        first, last = 0, len(answer.body) - 1
        headers = {"Connection": "close"}
        status = answer.status
        if asked.range and answer.ranges and status == 200:
            start, _, end = asked.range.removeprefix("bytes=").partition("-")
            first, last = int(start), min(int(end or last), last)
            total = str(len(answer.body)) if answer.states_length else "*"
            status = 206 if first <= last else 416
            headers["Content-Range"] = f"bytes {first}-{last}/{total}" if status == 206 else f"bytes */{total}"
        body = answer.body[first : last + 1] if status != 416 else b""
        if answer.states_length:
            headers["Content-Length"] = str(len(body))
        self._send(status, headers | answer.headers, body[: answer.cut], answer.slow, asked)

    def _send(self, status: int, headers: dict[str, str], body: bytes, slow: float, asked: Asked) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            for at in range(0, len(body), PIECE):
                time.sleep(slow)
                self.wfile.write(body[at : at + PIECE])
                asked.sent += len(body[at : at + PIECE])
        except ConnectionError:
            return  # the client left

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""
