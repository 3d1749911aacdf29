"""What a Service does: each new connection goes to the next process that accepts one. Must not know: what is said."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Sequence

_CHUNK = 1 << 16


class Balancer:
    """Listens on a port of 127.0.0.1 and passes connections on, in turn, to `ports`."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports, self._turn = tuple(ports), itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="balancer", daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with their peers."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        peer = self._connected()
        if peer is None:
            client.close()
            return
        back = threading.Thread(target=_pump, args=(peer, client), daemon=True)
        back.start()
        _pump(client, peer)
        back.join()
        client.close()
        peer.close()

    def _connected(self) -> socket.socket | None:
        first = next(self._turn)
        for number in range(len(self._ports)):
            port = self._ports[(first + number) % len(self._ports)]
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=None)
        return None


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until either side is gone, then say so to both."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
