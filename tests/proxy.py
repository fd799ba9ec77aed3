"""Stand between clients and a server on loopback: one loses answers, one is far away and counts requests."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Self

CHUNK = 65536
REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")


class Proxy:
    """Hands bytes on both ways, and shows each of them to `asked` and `answered` on their way."""

    def __init__(self, port: int) -> None:
        self.target = port
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(("127.0.0.1", proxy.target)) as server:
                    for side in (self.request, server):
                        # else a delay of the kernel's is measured
                        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    proxy.pump(self.request, server)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    def asked(self, link: threading.Event, data: bytes) -> None:
        """Sees what a client sends; `link` is the connection's own, to tell `answered` something."""

    def answered(self, link: threading.Event, data: bytes) -> bool:
        """Sees what the server sends; whether the client gets it, and the connection goes on."""
        return True

    def pump(self, client: socket.socket, server: socket.socket) -> None:
        """Both ways until one side ends."""
        link = threading.Event()

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(CHUNK):
                    if not self.answered(link, data):
                        break
                    client.sendall(data)
            for side in (client, server):
                with suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=answers, daemon=True)
        thread.start()
        with suppress(OSError):
            while data := client.recv(CHUNK):
                self.asked(link, data)
                server.sendall(data)
        thread.join()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class LossyProxy(Proxy):
    """Cuts the connection once a request that `lose_answer_to` names was answered.

    The server has then done what it was asked, and the client never hears of it.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.lose_answer_to: bytes | None = None
        self.lost = 0

    def asked(self, link: threading.Event, data: bytes) -> None:
        if self.lose_answer_to and self.lose_answer_to in data:
            link.set()
            self.lose_answer_to = None

    def answered(self, link: threading.Event, data: bytes) -> bool:
        self.lost += link.is_set()
        return not link.is_set()


class FarProxy(Proxy):
    """Holds the first byte of each answer back, as a server does that is far away, and counts requests and bytes.

    Args:
        port: of the server, which speaks HTTP/1.1 without pipelining.
        delay: seconds to the first byte.
    """

    def __init__(self, port: int, delay: float) -> None:
        super().__init__(port)
        self.delay = delay
        self._lock = threading.Lock()
        self._requests: list[tuple[str, str]] = []
        self._bytes = [0, 0]

    def taken(self) -> tuple[list[tuple[str, str]], int, int]:
        """Returns requests by method and path, bytes sent and bytes got since it was last asked."""
        with self._lock:
            taken = (self._requests, *self._bytes)
            self._requests, self._bytes = [], [0, 0]
        return taken

    def asked(self, link: threading.Event, data: bytes) -> None:
        with self._lock:
            self._bytes[0] += len(data)
            if found := REQUEST.match(data):
                self._requests.append((found[1].decode(), found[2].decode()))
                link.set()

    def answered(self, link: threading.Event, data: bytes) -> bool:
        if link.is_set():
            link.clear()
            time.sleep(self.delay)
        with self._lock:
            self._bytes[1] += len(data)
        return True


def by_method(requests: list[tuple[str, str]]) -> Counter[str]:
    """Returns how many requests there were of each method."""
    return Counter(method for method, _ in requests)
