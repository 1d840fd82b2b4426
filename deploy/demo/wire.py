"""One HTTP/1.1 exchange on a connection of its own, read to its very end.

http.client hides trailers and forgives a cut body; an auditing client has to see both.
"""

import contextlib
import json
import socket
from urllib.parse import urlsplit


class Cut(Exception):
    """The connection ended before the answer did, or was never there."""


class Answer:
    def __init__(self, status, headers, body, trailers):
        self.status, self.headers, self.body, self.trailers = status, headers, body, trailers

    def get(self, name):
        """A header's one value; None if absent."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def text(self):
        return self.body.decode("utf-8", "strict")

    def json(self):
        return json.loads(self.body)

    def receipt(self):
        """From the head, or from the trailer of a stream."""
        return self.get("lineage-receipt") or dict(self.trailers).get("lineage-receipt")


class Reader:
    """What a socket gives, by line and by length."""

    def __init__(self, peer):
        self.peer, self.held = peer, b""

    def more(self):
        piece = self.peer.recv(65536)
        if not piece:
            raise Cut("the connection was closed early")
        self.held += piece

    def line(self):
        while b"\r\n" not in self.held:
            self.more()
        line, _, self.held = self.held.partition(b"\r\n")
        return line.decode("latin-1")

    def exactly(self, count):
        while len(self.held) < count:
            self.more()
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def fields(self):
        """Header or trailer lines up to the empty one."""
        found = []
        for line in iter(self.line, ""):
            name, _, value = line.partition(":")
            found.append((name.strip().lower(), value.strip()))
        return found


def chunks(reader):
    while True:
        size = int(reader.line().partition(";")[0], 16)
        if size == 0:
            return
        yield reader.exactly(size)
        reader.exactly(2)


def read(reader):
    status = int(reader.line().split()[1])
    headers = reader.fields()
    named = dict(headers)
    if "chunked" in named.get("transfer-encoding", ""):
        body = b"".join(chunks(reader))
        return Answer(status, headers, body, reader.fields())
    return Answer(status, headers, reader.exactly(int(named.get("content-length", 0))), [])


@contextlib.contextmanager
def leaving(base, path, headers, body, timeout=30):
    """Posts a request and gives a reader of its answer; whoever has read enough leaves, answered or not."""
    to = urlsplit(base)
    head = {"Host": to.netloc, "Content-Length": str(len(body)), **headers}
    wire = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in head.items()) + "\r\n"
    with socket.create_connection((to.hostname, to.port), timeout=timeout) as peer:
        peer.sendall(wire.encode("latin-1") + body)
        yield Reader(peer)


def exchange(base, method, path, headers=None, body=b"", timeout=30, host=None):
    """Sends one request to `base` (http://host:port) and returns the whole answer, or raises Cut."""
    to = urlsplit(base)
    head = {"Host": host or to.netloc, "Connection": "close", **(headers or {})}
    if method != "GET":
        head["Content-Length"] = str(len(body))
    wire = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in head.items()) + "\r\n"
    try:
        with socket.create_connection((to.hostname, to.port), timeout=timeout) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                peer.sendall(wire.encode("latin-1") + body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused while we still send: the answer may be there all the same
            return read(Reader(peer))
    except (OSError, ValueError, IndexError) as fault:
        raise Cut(f"{method} {path}: {fault}") from fault


def events(answer):
    """The data of a server-sent event stream. Anything that is not a data event is a Cut."""
    found = []
    pieces = answer.text.split("\n\n")
    if pieces.pop() != "":
        raise Cut("the stream ends inside an event")
    for piece in pieces:
        if not piece.startswith("data: ") or "\n" in piece:
            raise Cut(f"not a data event: {piece[:80]!r}")
        found.append(piece[len("data: "):])
    return found
