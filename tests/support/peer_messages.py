"""Messages between a test and its peers: pickles over a Unix stream socket; vkshare's descriptors cross with their fds.

Objects that cannot cross (devices, surfaces, fences, ...) stay where they are and travel as numbers: a peer keeps the
object, the test gets a Remote that stands for it.
"""

from __future__ import annotations

import array
import io
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any

_HEADER = struct.Struct("<II")  # bytes of the pickle, number of fds
_MOST_FDS = 64

Name = Callable[[object], Any]  # what stands for an object that stays, or None if the object itself travels
Find = Callable[[Any], object]  # the object that such a name means here


class Channel:
    """One end of the connection. One thread at a time sends, one receives."""

    def __init__(self, sock: socket.socket, name: Name, find: Find) -> None:
        self.socket = sock
        self._name = name
        self._find = find

    def send(self, message: object) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file, self._name)
        pickler.dump(message)
        data = file.getvalue()
        fds = pickler.fds
        if len(fds) > _MOST_FDS:
            raise ValueError(f"{len(fds)} fds in one message; allowed are {_MOST_FDS}")
        socket.send_fds(self.socket, [_HEADER.pack(len(data), len(fds))], fds)
        self.socket.sendall(data)

    def receive(self) -> Any:
        """The next message; EOFError when the other end is gone."""
        try:
            header, fds = receive_fds(self.socket, _HEADER.size, _MOST_FDS)
        except ConnectionResetError:
            header, fds = b"", []
        header += self._exactly(_HEADER.size - len(header))
        size, _ = _HEADER.unpack(header)
        return _Unpickler(io.BytesIO(self._exactly(size)), self._find, fds).load()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("the other end is gone")
            data += part
        return bytes(data)


def receive_fds(sock: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """socket.recv_fds(), which leaves its flags out of account in Python 3.11: the fds would be inherited."""
    fds = array.array("i")
    space = socket.CMSG_LEN(most * fds.itemsize)
    data, messages, _, _ = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in messages:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return data, list(fds)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, name: Name) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._name = name
        self.fds: list[int] = []

    def persistent_id(self, thing: object) -> Any:
        from vkshare.ipc.descriptors import Descriptor

        if isinstance(thing, Descriptor):
            fds = thing._unused_fds()
            self.fds += fds
            thing._used = True
            return "descriptor", type(thing), thing.to_bytes(), len(fds)
        name = self._name(thing)
        return None if name is None else ("thing", name)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Find, fds: list[int]) -> None:
        super().__init__(file)
        self._find = find
        self._fds = list(fds)

    def persistent_load(self, reported: Any) -> object:
        if reported[0] == "thing":
            return self._find(reported[1])
        _, kind, data, count = reported
        mine, self._fds = self._fds[:count], self._fds[count:]
        return kind.from_bytes(data, mine)
