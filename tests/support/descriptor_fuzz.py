"""Descriptors with bytes and fds that no honest party sends, opened in this process.

    cd tests; python -X dev -X faulthandler -m support.descriptor_fuzz COUNT SEED

VKSHARE_BACKEND and the driver's variables choose where. Prints what became of them as JSON. Exit status 1: an error
that is not documented, an exception that no caller saw, or fds that stayed. A crash, or a descriptor that took 10 s,
ends with a traceback of every thread.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import faulthandler
import fcntl
import gc
import json
import os
import random
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import vkshare as vks
from support.pixel_formats import PLANAR
from vkshare.ipc.descriptors import Descriptor

PATIENCE = 10  # seconds that one descriptor may take
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
HDR = vks.Color("bt2020", "pq", "bt2020", "limited", "top-left")
SIZES = (0, 1, 63, 4095, 4096, 8192, 1 << 20, 1 << 33, 1 << 40)


@dataclasses.dataclass
class Good:
    """A descriptor that an honest party sends, and what opens it."""

    kind: type[Descriptor]
    data: bytes
    fds: tuple[int, ...]
    open: Callable[[Any], object]


class Fuzzer:
    """Spoils descriptors of objects of its own, and opens them on a device of its own."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._stack = contextlib.ExitStack()
        self._makers = self._stack.enter_context(vks.open(name="maker"))
        self._device = self._stack.enter_context(vks.open(name="opener"))
        self._strays = list(self._make_strays())
        self._good = list(self._make_good())
        self.outcomes: collections.Counter[str] = collections.Counter()

    def close(self) -> None:
        self._stack.close()

    # ---- the damage ----------------------------------------------------------------------------------------------

    def _make_good(self) -> Iterator[Good]:
        makers, device, keep = self._makers, self._device, self._stack.enter_context
        for size in ((24, 10), (64, 64)):
            for tiling in sorted(makers.capabilities.tilings):
                for form, color in (("rgba8unorm", None), *((name, HDR) for name in PLANAR)):
                    with contextlib.suppress(vks.UnsupportedError):
                        surface = keep(makers.create_surface(*size, form, tiling=tiling, color=color))
                        yield self._of(surface.export(), device.open_surface)
        for nbytes in (1, 4096, 100_001):
            yield self._of(keep(makers.create_buffer(nbytes)).export(), device.open_buffer)
        fence = keep(makers.create_fence(3))
        yield self._of(fence.export(), device.open_fence)
        queue = keep(vks.SurfaceQueue(makers, 16, 16, count=2, metadata_size=8))
        yield self._of(queue.export(), lambda descriptor: vks.SurfaceQueue.open(device, descriptor))
        for sender, descriptor in (vks.pipe(makers, 16, 16, count=2), vks.buffer_pipe(makers, 5000, count=2)):
            keep(sender)
            yield self._of(descriptor, lambda descriptor: vks.open_receiver(device, descriptor))

    def _of(self, descriptor: Descriptor, opener: Callable[[Any], object]) -> Good:
        self._stack.enter_context(descriptor)
        return Good(type(descriptor), descriptor.to_bytes(), descriptor._unused_fds(), opener)

    def _make_strays(self) -> Iterator[int]:
        """Fds that are no memory."""
        ends = (*os.pipe(), *(end.detach() for end in socket.socketpair()))
        paths = (os.open(path, os.O_RDONLY) for path in ("/dev/null", "/dev/zero", "/proc/self/exe", "/tmp"))
        for fd in (*ends, *paths, os.eventfd(0)):
            self._stack.callback(os.close, fd)
            yield fd

    # ---- spoiling ------------------------------------------------------------------------------------------------

    def _spoiled_bytes(self, data: bytes) -> bytes:
        dice, changed = self._dice, bytearray(data)
        for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 5))):
            at = dice.randrange(len(changed))
            if dice.random() < 0.3:  # a whole number
                at -= at % 4
                value = dice.choice((0, 1, 2, 3, 4096, 2**31, 2**32 - 1, dice.getrandbits(32)))
                changed[at : at + 4] = value.to_bytes(4, "little")
            else:
                changed[at] = dice.choice((0, 1, 2, 127, 128, 255, dice.randrange(256)))
        if dice.random() < 0.03:
            del changed[dice.randrange(len(changed)) :]
        return bytes(changed)

    def _spoiled_fds(self, fds: tuple[int, ...]) -> list[int]:
        """Duplicates, of which some are others."""
        dice = self._dice
        given = [os.dup(fd) for fd in fds]
        for _ in range(dice.choice((0, 0, 1, 1, 1, 2))):
            what = dice.random()
            if what < 0.1 and given:
                os.close(given.pop(dice.randrange(len(given))))
            elif what < 0.2:
                given.insert(dice.randrange(len(given) + 1), os.dup(dice.choice(self._strays)))
            elif what < 0.4:
                dice.shuffle(given)
            elif given:
                index = dice.randrange(len(given))
                other = self._other(given[index])
                os.close(given[index])
                given[index] = other
        return given

    def _other(self, fd: int) -> int:
        """An fd in the place of that one."""
        dice = self._dice
        what = dice.randrange(8)
        if what == 0:
            return os.dup(dice.choice(self._strays))
        if what in (1, 2):  # what another object has in that place, or elsewhere
            return os.dup(dice.choice(dice.choice(self._good).fds))
        if what == 3:
            with contextlib.suppress(OSError):
                return os.open(f"/proc/self/fd/{fd}", dice.choice((os.O_RDONLY, os.O_WRONLY)))
            return os.dup(fd)
        size = os.fstat(fd).st_size
        if what == 4:
            return self._memfd(max(0, size + dice.choice((-4096, -1, 1, 4096))), b"", SEALS)
        if what == 5:
            return self._memfd(dice.choice(SIZES), b"", SEALS)
        content = b""
        with contextlib.suppress(OSError):
            content = os.pread(fd, min(size, 1 << 16), 0)
        if what == 6:
            return self._memfd(size, content, dice.choice((0, 1, 2, 4, 6, SEALS | 8, SEALS | 16)))
        return self._memfd(size, self._spoiled_bytes(content or b"\0"), SEALS)  # a page, or a driver's header

    def _memfd(self, size: int, content: bytes, seals: int) -> int:
        fd = os.memfd_create("fuzzed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, size)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fd

    # ---- opening -------------------------------------------------------------------------------------------------

    def one(self) -> None:
        """One descriptor: refused as documented, or opened, used for a moment and closed."""
        good = self._dice.choice(self._good)
        kind = good.kind if self._dice.random() < 0.97 else self._dice.choice(self._good).kind
        data, fds = self._spoiled_bytes(good.data), self._spoiled_fds(good.fds)
        try:
            with kind.from_bytes(data, fds) as descriptor:
                self._use(good.open(descriptor))
            self.outcomes["opened"] += 1
        except (vks.VkshareError, TimeoutError) as error:
            self.outcomes[type(error).__name__] += 1
        except TypeError:
            if kind is good.kind:
                raise
            self.outcomes["of another kind"] += 1

    def _use(self, opened: Any) -> None:
        with opened:
            if isinstance(opened, vks.Surface):
                opened.acquire(0, 0)
                with contextlib.suppress(vks.VkshareError):
                    opened.release(0)
            elif isinstance(opened, vks.Fence):
                opened.is_done(1)


def _kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * (os.sysconf("SC_PAGESIZE") // 1024)


def _fds() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` descriptors; what became of them, and what they left."""
    unseen: list[str] = []
    sys.unraisablehook = lambda reported: unseen.append("".join(traceback.format_exception(reported.exc_value)))
    threading.excepthook = lambda reported: unseen.append("".join(traceback.format_exception(reported.exc_value)))
    fuzzer = Fuzzer(random.Random(seed))
    for _ in range(min(500, count)):  # what is made once, by the first of each kind
        fuzzer.one()
    fuzzer._device._reap()
    fds, memory, began, slowest = _fds(), _kib(), time.monotonic(), 0.0
    for _ in range(count):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        start = time.monotonic()
        fuzzer.one()
        slowest = max(slowest, time.monotonic() - start)
    faulthandler.cancel_dump_traceback_later()
    seconds = time.monotonic() - began
    fuzzer._device._reap()
    left = {"fds": _fds() - fds, "kib": _kib() - memory}
    fuzzer.close()
    return {
        "count": count,
        "seed": seed,
        "per_second": round(count / seconds),
        "slowest_ms": round(slowest * 1e3),
        "outcomes": dict(fuzzer.outcomes),
        "left": left,
        "unseen": unseen,
    }


def main() -> int:
    faulthandler.enable()
    reported = run(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(reported))
    return 1 if reported["unseen"] or reported["left"]["fds"] > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
