"""Other processes at a server: clients that are killed, stopped, or badly behaved.

    python -m support.server_peer PATH ROLE [ARGUMENT]

Prints a line once it is at what it is to do.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import vkshare as vks
from vkshare.server import Client
from vkshare.server import messages as m


def say() -> None:
    print("here", flush=True)


def busy(path: str, argument: str) -> None:
    """Draws, makes and closes things, until it is killed."""
    rng = random.Random(int(argument))
    kept: list[Any] = []
    with vks.open(backend="cpu") as device, Client(path, device=device) as client:
        say()
        while True:
            surface, fence = client.create_surface(rng.randrange(1, 64), 16), client.create_fence()
            kept += [surface, fence]
            for n in range(rng.randrange(20)):
                commands = client.record().clear(surface, (1, 0, 0, 1))
                client.submit(commands, acquire={surface: n}, release={surface: n + 1}, signals=[(fence, n + 1)])
            if rng.random() < 0.5:
                client.sync()
            while len(kept) > 16:
                kept.pop(rng.randrange(len(kept))).close()


def flood(path: str, argument: str) -> None:
    """Submits as fast as it can, for so many seconds; prints how many."""
    with Client(path, timeout=60) as client:
        surface = client.create_surface(8, 8)
        commands = client.record().clear(surface, (1, 0, 0, 1))
        client.submit(commands, acquire={surface: 0})
        say()
        sys.stdin.readline()
        end = time.monotonic() + float(argument)
        count = 0
        while time.monotonic() < end:
            for _ in range(20):
                client.submit(commands)
            client.ping()
            count += 20
        print(count, flush=True)


def deaf(path: str, argument: str) -> None:
    """Asks and asks, and reads no answer."""
    from pathlib import Path

    from support.render_servers import Raw

    raw = Raw(Path(path))
    raw.hello()
    say()
    question = raw.packed(m.Op.STATISTICS)
    try:
        while True:
            raw.sock.sendall(question * 100)
    except OSError:
        print("cut off", flush=True)


def ping(path: str, argument: str) -> None:
    """Sends no-ops for so many seconds; prints how many, and the 50th and 99th percentile of their times in seconds."""
    with Client(path) as client:
        client.ping()
        say()
        sys.stdin.readline()
        waits = []
        end = time.monotonic() + float(argument)
        while time.monotonic() < end:
            start = time.monotonic()
            client.ping()
            waits.append(time.monotonic() - start)
        waits.sort()
        print(len(waits), waits[len(waits) // 2], waits[len(waits) * 99 // 100], flush=True)


def serve(path: str, argument: str) -> None:
    """A server of its own, that many of whose clients will be idle."""
    with vks.server.RenderServer(lambda: vks.open(backend="cpu"), path) as server:
        say()
        server.serve_forever()


if __name__ == "__main__":
    roles = {"busy": busy, "flood": flood, "deaf": deaf, "ping": ping, "serve": serve}
    roles[sys.argv[2]](sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "0")
