"""Programs in C: they receive a surface over a Unix socket, wait for its key, draw into it and hand it on."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import c_client
from support.c_client import BAD_PAGE, CLOSED, OK, TIMEOUT, Client, Receiver, complaints
from support.fd_counts import open_fds
from support.tree_paths import ROOT

import vkshare as vks
from vkshare import formats
from vkshare.backends import base
from vkshare.errors import AbandonedError
from vkshare.ipc import descriptors
from vkshare.util.library_calls import lib

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

COLOUR = np.array([64, 128, 192, 255], np.uint8)  # of vulkan_client


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path, device: vks.Device, stack: ExitStack) -> Start:
    """Starts the client that is for this run's backend: ``start(acquire_key, release_key, seconds_to_hold)``."""

    def one_more(*words: object, program: str = "", layers: str = "") -> Client:
        name = program or ("cpu_client" if device.backend == "cpu" else "vulkan_client")
        return stack.enter_context(Client(c_client.program(name), tmp_path, *words, layers=layers))

    return one_more


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Receiver:
    return Receiver(tmp_path_factory.mktemp("receiver"))


@pytest.fixture(params=[socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=["stream", "seqpacket"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, request.param)
    with one, two:
        yield one, two


def expected(surface: vks.Surface) -> np.ndarray:
    """What the client draws: on the CPU a byte pattern, on Vulkan one colour."""
    height, width, _ = surface.shape
    if surface.device.backend == "vulkan":
        return np.broadcast_to(COLOUR, (height, width, 4))
    y, x, c = np.ogrid[:height, :width, : surface.spec.format.bytes_per_pixel]
    return (x + 3 * y + 5 * c + 1).astype(np.uint8)


def as_bytes(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels).view(np.uint8).reshape(*pixels.shape[:2], -1)


# ---- drawing -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I8")
@pytest.mark.parametrize(
    ("size", "name"),
    [
        ((33, 17), "rgba8unorm"),
        ((1, 1), "rgba8unorm"),
        ((5, 70), "r8unorm"),
        ((9, 4), "rgba32float"),
        ((9, 4), "rg16unorm"),
    ],
)
def test_a_c_program_waits_for_its_key_draws_every_byte_and_hands_on(
    device: vks.Device, start: Start, size: tuple[int, int], name: str
) -> None:
    if device.backend == "vulkan" and name != "rgba8unorm":
        pytest.skip("the Vulkan client clears, which the formats' own tests compare")
    for tiling in sorted(device.capabilities.tilings):
        surface = device.create_surface(*size, name, tiling=tiling, usage=("copy",))
        with surface.access(0, 1):
            client = start(1, 2)
            with surface.export() as descriptor:
                descriptor.send(client.socket)
            surface.write(np.full(surface.shape, 7, surface.spec.format.numpy_dtype))  # it must not draw before this
            assert client.process.poll() is None
        with surface.access(2, 0, 30):
            assert (as_bytes(surface.read()) == expected(surface)).all()
        assert client.end() == (0, "drawing\n", "")


def test_the_guides_python_side_lets_it_draw(device: vks.Device) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/guide.md").read_text(), re.M | re.S)
    (block,) = (block for block in blocks if "def let_it_draw" in block)
    there: dict[str, Any] = {"socket": socket}
    exec(block, there)
    surface = device.create_surface(16, 16)
    with surface.access(0, 1):
        pass
    there["let_it_draw"](surface, c_client.program("cpu_client" if device.backend == "cpu" else "vulkan_client"))
    assert (as_bytes(surface.read()) == expected(surface)).all()


@pytest.mark.rule("I8")
def test_a_c_programs_vulkan_calls_are_valid(device: vks.Device, start: Start) -> None:
    if device.backend != "vulkan" or os.environ.get("VKSHARE_VALIDATION", "0") in ("", "0"):
        pytest.skip("without the validation layer")
    surface = device.create_surface(16, 16)
    client = start(0, 1, layers="VK_LAYER_KHRONOS_validation")
    with surface.export() as descriptor:
        descriptor.send(client.socket)
    with surface.access(1, 0, 30):
        assert (surface.read() == COLOUR).all()
    status, out, err = client.end()
    assert status == 0, err
    assert complaints(out + err) == []


@pytest.mark.rule("I8", "K9")
def test_a_c_program_that_is_killed_while_it_owns_leaves_an_abandoned_surface_that_is_recovered(
    device: vks.Device, start: Start
) -> None:
    surface = device.create_surface(16, 16)
    client = start(0, 1, 60)
    with surface.export() as descriptor:
        descriptor.send(client.socket)
    assert client.process.stdout.readline() == "drawing\n"  # type: ignore[union-attr]
    assert surface.mutex.statistics().owner_name == "c client"
    client.process.send_signal(signal.SIGKILL)
    with pytest.raises(AbandonedError):
        surface.acquire(1, 10)
    surface.recover(10)
    device.submit(device.record().clear(surface, (1, 1, 1, 1)))
    assert (surface.read() == 255).all()
    surface.release(0)
    again = start(0, 5)
    with surface.export() as descriptor:
        descriptor.send(again.socket)
    with surface.access(5, 0, 30):
        assert (as_bytes(surface.read()) == expected(surface)).all()


@pytest.mark.rule("I8")
def test_a_c_program_says_why_it_cannot_draw(device: vks.Device, start: Start) -> None:
    other = "vulkan_client" if device.backend == "cpu" else "cpu_client"
    surface = device.create_surface(16, 16)
    client = start(0, 1, program=other)
    with surface.export() as descriptor:
        descriptor.send(client.socket)
    status, out, err = client.end()
    assert status in (1, 77)
    assert out == ""
    assert re.search("use cpu_client|on a device of the same adapter|no device here|Vulkan: |vkCreateInstance", err), (
        err
    )
    surface.acquire(0, 0)  # no handle took it
    client = start(0, 1)
    client.socket.close()
    assert client.end() == (1, "", "descriptor: the peer closed the connection\n")


# ---- untrusted descriptors -----------------------------------------------------------------------------------------


def send(sock: socket.socket, data: bytes, fds: tuple[int, ...]) -> None:
    socket.send_fds(sock, [data], fds)


@pytest.mark.rule("I8", "X13")
def test_what_c_receives_is_what_python_packed(
    receiver: Receiver, pair: tuple[socket.socket, socket.socket], device: vks.Device
) -> None:
    surface, fence = device.create_surface(24, 10), device.create_fence()
    with surface.export() as first, fence.export() as second:
        before = open_fds()
        first.send(pair[0])
        first.send(pair[0])
        second.send(pair[0])
        for _ in range(2):
            assert receiver.receive(pair[1])[:2] == (OK, first.to_bytes()[descriptors.HEADER_SIZE :])
        status, body, _ = receiver.receive(pair[1], "fence")
        assert status == OK
        assert body.startswith(second.to_bytes()[descriptors.HEADER_SIZE :])
        assert receiver.receive(pair[1])[0] == TIMEOUT
        assert open_fds() == before
    pair[0].close()
    assert receiver.receive(pair[1])[0] == CLOSED


@pytest.mark.rule("I8", "X13", "X15")
def test_ten_thousand_mutations_are_received_or_refused_in_c_and_nothing_leaks(
    receiver: Receiver, device: vks.Device
) -> None:
    with device.create_surface(24, 10).export() as descriptor:
        data, fds = descriptor.to_bytes(), descriptor._fds
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        dice = random.Random(seed)
        before = open_fds()
        taken = 0
        for _ in range(10_000):
            mutated = bytearray(data)
            for _ in range(dice.choice((0, 1, 1, 2, 5))):
                mutated[dice.randrange(len(mutated))] = dice.choice((0, 1, 2, 127, 128, 255, dice.randrange(256)))
            given = (fds * 2)[: len(fds) if dice.random() < 0.9 else dice.randrange(len(fds) + 2)]
            one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with one, two:
                send(one, bytes(mutated), given)
                status, _, text = receiver.receive(two)
            assert status in (OK, BAD_PAGE), f"{status} ({text!r}) of {bytes(mutated).hex()} with {len(given)} fds"
            taken += status == OK
        assert taken
        assert open_fds() == before


@pytest.mark.rule("I8", "K32", "X13")
def test_garbage_is_refused_in_c_with_words_and_every_fd_is_closed(
    receiver: Receiver, pair: tuple[socket.socket, socket.socket], device: vks.Device, tmp_path: Path
) -> None:
    is_stream = pair[0].type == socket.SOCK_STREAM
    with device.create_surface(24, 10).export() as descriptor, contextlib.ExitStack() as stack:
        data, fds = descriptor.to_bytes(), descriptor._fds
        pipe = os.pipe()
        unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.truncate(unsealed, 1 << 20)
        on_disk = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        for fd in (*pipe, unsealed, on_disk):
            stack.callback(os.close, fd)
        memory, page, *rest = fds
        cases: list[tuple[bytes, tuple[int, ...], str]] = [
            (data[:10], fds, "after 10 bytes" if is_stream else "at least 28 bytes; 10 came"),
            (data[:-1], fds, "after 147 bytes" if is_stream else "says 148 bytes and has 147"),
            (b"GET / HTTP/1.1\r\n\r\n" * 10, (), "not a descriptor of vkshare"),
            (changed(data, 12, 9), fds, "descriptors have layout version 9, this vkshare's have 2"),
            (changed(data, 16, 9), fds, f"pages have layout version 9, this vkshare's have {lib.VKS_LAYOUT_VERSION}"),
            (changed(data, 8, 2), fds, "kind is 2, expected is 1"),
            (changed(data, 20, 4096), fds, "says 4096 bytes"),
            (data, (), "and 0 came"),
            (data, fds[:1], "and 1 came"),
            (data, (fds * 4)[:8], "and 8 came"),
            (data, (fds * 40)[:30], "more fds than fit"),
            (changed(data, 24, 5), (fds * 5)[:5], "carries 2 or 3 fds, and 5 came"),
            (data, (memory, pipe[0], *rest), "page's fd is not a memfd"),
            (data, (memory, unsealed, *rest), "not sealed"),
            (data, (memory, on_disk, *rest), "not a memfd"),
            (data, (pipe[0], page, *rest), "not a memfd|socket, pipe"),
            (data, (on_disk, page, *rest), "not a memfd"),
        ]
        for damaged, given, text in cases:
            one, two = socket.socketpair(socket.AF_UNIX, pair[0].type)
            before = len(os.listdir("/proc/self/fd"))
            send(one, damaged, given)
            one.shutdown(socket.SHUT_WR)
            status, _, why = receiver.receive(two)
            assert (status, bool(re.search(text, why))) == (BAD_PAGE, True), (text, why)
            assert len(os.listdir("/proc/self/fd")) == before, text
            one.close(), two.close()
        page_only = vks.FenceDescriptor._made(os.dup(unsealed), -1, bytes(16), bytes(16), name="x")
        with page_only:
            page_only.send(pair[0])
        assert receiver.receive(pair[1], "fence")[0] == BAD_PAGE


@pytest.mark.rule("I8")
def test_a_client_that_is_sent_garbage_ends_with_words_and_owns_nothing(device: vks.Device, start: Start) -> None:
    surface = device.create_surface(24, 10)
    with surface.export() as descriptor:
        data, fds = descriptor.to_bytes(), descriptor._fds
        for damaged, given, text in (
            (data[:50], fds, "after 50 bytes"),
            (changed(data, 12, 3), fds, "layout version 3"),
        ):
            client = start(0, 1)
            send(client.socket, damaged, given)
            client.socket.close()
            status, out, err = client.end()
            assert (status, out) == (1, "")
            assert text in err
    surface.acquire(0, 0)


def changed(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + struct.pack("<I", value) + data[offset + 4 :]


# ---- the header is the manual --------------------------------------------------------------------------------------


@pytest.mark.rule("I8", "K32")
def test_the_header_tells_the_numbers_of_pythons_words() -> None:
    numbers = {
        "VKS_LINEAR": base.TILINGS.index(("linear", False)),
        "VKS_OPTIMAL": base.TILINGS.index(("optimal", False)),
        "VKS_LINEAR_IN_DEVICE_MEMORY": base.TILINGS.index(("linear", True)),
        "VKS_OPAQUE_FD": descriptors._MEMORY_KINDS.index("opaque_fd"),
        "VKS_MEMFD": descriptors._MEMORY_KINDS.index("memfd"),
        **{f"VKS_USAGE_{name.upper()}": 1 << bit for bit, name in enumerate(base.USAGES)},
        **{f"VKS_BUFFER_{name.upper()}": 1 << bit for bit, name in enumerate(base.BUFFER_USAGES)},
        "VKS_BUFFER": base._BUFFER_TILING,
        "VKS_FORMAT_NONE": 0,
    }
    assert {name: getattr(lib, name) for name in numbers} == numbers
    header = Path(vks.get_include(), "vkshare_ipc.h").read_text()
    for each in formats.FORMATS.values():
        assert re.search(rf"\b{each.code} {each.name}\b", header)
