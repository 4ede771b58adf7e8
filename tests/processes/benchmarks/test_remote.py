"""benchmarks/rfb.py counts the bytes of a VNC server, and benchmarks/remote_load.py has contents that move."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

import vkshare
from benchmarks import remote_load, rfb

pytestmark = pytest.mark.program


def _rect(width: int, height: int, encoding: int, data: bytes) -> bytes:
    return struct.pack(">HHHHi", 0, 0, width, height, encoding) + data


UPDATE = b"".join(
    [
        struct.pack(">BxH", 0, 6),
        _rect(2, 3, 0, bytes(24)),  # raw
        _rect(2, 3, 1, bytes(4)),  # a copy
        _rect(90, 90, 7, b"\x80abc"),  # Tight, one colour
        _rect(1, 2, 7, b"\x00" + bytes(6)),  # too small to be compressed
        _rect(90, 90, 7, b"\x40\x01\x01abcdef" + b"\x81\x01" + bytes(129)),  # a palette of two
        _rect(90, 90, 7, b"\x00\xff\xff\x01" + bytes(127 + (127 << 7) + (1 << 14))),
    ]
)


def _serve(listener: socket.socket, updates: int) -> None:
    peer, _ = listener.accept()
    with peer:
        for data, answer in ((b"RFB 003.008\n", 12), (b"\x01\x01", 1), (bytes(4), 1)):
            peer.sendall(data)
            peer.recv(answer, socket.MSG_WAITALL)
        peer.sendall(struct.pack(">HH16xI", 90, 90, 4) + b"name")
        peer.recv(20 + 20 + 10, socket.MSG_WAITALL)  # the format, the encodings and the first request
        for _ in range(updates):
            peer.sendall(b"\x02" + UPDATE)  # a bell before each update
            peer.recv(10, socket.MSG_WAITALL)


def test_a_clients_updates_and_bytes_are_counted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "rfb"))
        listener.listen()
        server = threading.Thread(target=_serve, args=(listener, 3))
        server.start()
        with rfb.Client(rfb.Server(":0", tmp_path / "rfb")) as client:
            before = client.received
            assert client.updates(0, least=3) == 3
            assert client.received - before == 3 * (1 + len(UPDATE))
        server.join()


def test_a_vnc_server_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(rfb.NoVnc, match="tigervnc is not installed"), rfb.tigervnc(64, 48):
        pass


@pytest.mark.parametrize("content", range(len(remote_load.CONTENTS)))
def test_frames_of_the_contents_differ_and_are_the_same_again(content: int) -> None:
    with (
        vkshare.open(backend="cpu") as device,
        device.create_surface(*remote_load.SIZE) as surface,
        remote_load.CONTENTS[content](device) as drawn,
        surface.access() as view,
    ):

        def frame(number: int) -> np.ndarray:
            device.submit(drawn.record(view, number))
            return surface.read()

        first = frame(0)
        assert not np.array_equal(first, frame(1))
        assert np.array_equal(first, frame(0))


def test_a_photo_has_noise_that_does_not_compress_away() -> None:
    photo = remote_load.photo(100, 60, 1)
    assert photo.shape == (60, 100, 4)
    assert (photo[..., 3] == 255).all()
    assert np.array_equal(photo, remote_load.photo(100, 60, 1))
    assert not np.array_equal(photo, remote_load.photo(100, 60, 2))
    assert np.abs(np.diff(photo[..., 0].astype(int), axis=1)).mean() > 1
