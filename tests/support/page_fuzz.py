"""Random requests and messages to a view server, most of them nearly right: what a hostile page can send."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from typing import Any

from support.view_servers import RawPage

PER_CONNECTION = 40  # messages that are tried on one connection at most
_KINDS = ("pointer_down", "pointer_up", "pointer_move", "wheel", "key_down", "key_up", "char", "resize", "close", "x")
_VALUES: tuple[Any, ...] = (
    0,
    1,
    -1,
    2**31,
    2**63,
    -(2**70),
    0.5,
    1e308,
    "",
    "a",
    "x" * 300,
    None,
    True,
    [],
    {},
    [1] * 50,
)


class PageFuzz:
    """Makes what a hostile page sends."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def text(self) -> bytes:
        """A message that is right, nearly right, or not JSON at all."""
        dice = self._dice
        message: Any = dice.choice(
            [
                {"type": "hello", "version": 1},
                {"type": "ack", "frame": dice.choice([0, 1, 2, 1 << 40])},
                {"type": "mode", "mode": dice.choice(["auto", "lossless", "video"])},
                {"type": "ping", "time": dice.random() * 1e6},
                {"type": "event", "event_type": dice.choice(_KINDS), "x": dice.uniform(-9, 9), "buttons": [1]},
                {"type": dice.choice(["", "event", "end"])},
            ]
        )
        if dice.random() < 0.3:
            key = dice.choice([*message, "key", "width", "modifiers", "time_stamp"])
            message[key] = dice.choice(_VALUES)
        data = bytearray(json.dumps(message).encode())
        if dice.random() < 0.2:
            data[dice.randrange(len(data))] = dice.randrange(256)
        if dice.random() < 0.1:
            del data[dice.randrange(len(data)) :]
        if dice.random() < 0.02:
            data = bytearray(b"[" * 10_000)
        return bytes(data)

    def send(self, page: RawPage) -> None:
        """Send one frame, now and then one that RFC 6455 forbids."""
        dice = self._dice
        chance = dice.random()
        if chance < 0.9:
            page.send_frame(1, self.text())
        elif chance < 0.92:
            page.send_frame(dice.randrange(16), dice.randbytes(dice.randrange(200)))
        elif chance < 0.94:
            page.send_frame(1, self.text(), is_masked=False)
        elif chance < 0.96:
            page.send_frame(1, self.text(), final=dice.choice([0, 0xF0]))
        elif chance < 0.98:
            page.sock.sendall(struct.pack("!BBQ", 0x81, 0xFF, dice.choice([1 << 20, 1 << 62, (1 << 64) - 1])))
        else:
            page.sock.sendall(dice.randbytes(dice.randrange(1, 400)))

    def head(self, page: RawPage) -> bytes:
        """A request's head with a few wrong bytes."""
        lines = [
            "GET /view HTTP/1.1",
            f"Host: {page.host}",
            f"Origin: http://{page.host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol: vkshare.view.1, token.x",
        ]
        data = bytearray("\r\n".join([*lines, "", ""]).encode())
        for _ in range(self._dice.choice([0, 1, 1, 3])):
            at = self._dice.randrange(len(data))
            data[at : at + self._dice.choice([0, 1, 4])] = self._dice.randbytes(self._dice.choice([0, 1, 8]))
        return bytes(data)


def run(server: Any, count: int, dice: random.Random) -> int:
    """Send so many messages; return the number of connections that they took. No answer is waited for."""
    fuzz, connections = PageFuzz(dice), 0
    while count > 0:
        connections += 1
        with contextlib.suppress(OSError), RawPage(server) as page:
            if dice.random() < 0.2:
                count -= 1
                page.sock.sendall(fuzz.head(page))
                page.sock.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    page.head()
                continue
            count -= 1
            assert page.request().startswith(b"HTTP/1.1 101 ")
            if dice.random() < 0.9:
                page.say({"type": "hello", "version": 1})
            for _ in range(dice.randrange(PER_CONNECTION)):
                count -= 1
                fuzz.send(page)
    return connections
