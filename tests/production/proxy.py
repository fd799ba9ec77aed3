"""Stands between a client and a server on loopback, and loses what it is told to lose."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from typing import Self

CHUNK = 65536


class LossyProxy:
    """Hands bytes on both ways; `lose_answer_to` makes it cut the connection once such a request was answered.

    The server has then done what it was asked, and the client never hears of it.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.lose_answer_to: bytes | None = None
        self.lost = 0
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(("127.0.0.1", proxy.target)) as server:
                    proxy.pump(self.request, server)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    def pump(self, client: socket.socket, server: socket.socket) -> None:
        """Both ways until one side ends."""
        doomed = threading.Event()

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(CHUNK):
                    if doomed.is_set():
                        self.lost += 1
                        break
                    client.sendall(data)
            for side in (client, server):
                with suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=answers, daemon=True)
        thread.start()
        with suppress(OSError):
            while data := client.recv(CHUNK):
                if self.lose_answer_to and self.lose_answer_to in data:
                    doomed.set()
                    self.lose_answer_to = None
                server.sendall(data)
        thread.join()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
