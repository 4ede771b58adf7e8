"""A relay between the two ends of a link, which loses, stalls and cuts its connections."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

_SIZE = 1 << 16


class Relay:
    """Carries connections to `target`, an address that may change; `address` is where it listens."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.is_stalled = False  # nothing is carried, and nothing is closed
        self.is_refusing = False  # new connections are closed at once
        self.connections = 0
        self.carried = 0
        self._cut_after: int | None = None
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._sock.setblocking(False)
        self.address = f"127.0.0.1:{self._sock.getsockname()[1]}"
        self._peers: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Closes every connection; the bytes on the way are lost."""
        with self._lock:
            self._close_all()

    def cut_after(self, nbytes: int) -> None:
        """Cuts once so many more bytes were carried."""
        self._cut_after = self.carried + nbytes

    def close(self) -> None:
        self._is_closed = True
        self._thread.join()
        self.cut()
        self._sock.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._is_closed:
            with self._lock, selectors.DefaultSelector() as selector:
                selector.register(self._sock, selectors.EVENT_READ)
                if not self.is_stalled:
                    for each in self._peers:
                        selector.register(each, selectors.EVENT_READ)
                for key, _ in selector.select(0.005):
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._sock:
                        self._accept()
                    else:
                        self._carry(key.fileobj)

    def _accept(self) -> None:
        sock = self._sock.accept()[0]
        host, port = self.target.rsplit(":", 1)
        try:
            if self.is_refusing:
                raise ConnectionRefusedError
            other = socket.create_connection((host, int(port)))
        except OSError:
            sock.close()
            return
        self.connections += 1
        self._peers[sock], self._peers[other] = other, sock

    def _carry(self, sock: socket.socket) -> None:
        other = self._peers.get(sock)
        if other is None:
            return
        try:
            data = sock.recv(_SIZE)
            if self._cut_after is not None and self.carried + len(data) >= self._cut_after:
                data = data[: self._cut_after - self.carried]
                self._cut_after = None
                other.sendall(data)
                self._close_all()
                return
            if not data:
                raise ConnectionResetError
            other.sendall(data)
            self.carried += len(data)
        except OSError:
            for each in (sock, other):
                self._peers.pop(each, None)
                each.close()

    def _close_all(self) -> None:
        for each in self._peers:
            with contextlib.suppress(OSError):
                each.close()
        self._peers.clear()
