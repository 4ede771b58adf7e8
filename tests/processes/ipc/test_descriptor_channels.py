"""Descriptors through other people's channels: multiprocessing's, pickles in files, sockets of event loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import ClosedError, DescriptorError
from vkshare.ipc import fd_broker, sockets, transport
from vkshare.util import fd_ops

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]

Open = Callable[..., vks.Device]


@pytest.fixture
def surface(device: vks.Device) -> vks.Surface:
    return device.create_surface(24, 10)


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """Every test leaves the counter empty, and its thread ends with it."""
    yield
    try:
        wait_until(lambda: fd_broker._broker.listener is None, 3)
    finally:
        fd_broker._broker.forget()


# ---- multiprocessing -----------------------------------------------------------------------------------------------


def _brighten(device: vks.Device, descriptor: vks.SurfaceDescriptor, key: int) -> None:
    assert not any(os.get_inheritable(fd) for fd in descriptor._fds)
    with descriptor, device.open_surface(descriptor) as opened, opened.access(key, key + 1, 10):
        opened.write(opened.read() + 1)


def _party(connection: Any, queue: Any, answers: Any, as_argument: Any, backend: str, name: str) -> None:
    with vks.open(name, backend=backend) as device:
        _brighten(device, as_argument, 0)
        _brighten(device, queue.get(timeout=30), 1)
        _brighten(device, connection.recv(), 2)
        with connection.recv() as fence, device.open_fence(fence) as follower:
            follower.wait(3, 10)
        mine = device.create_surface(8, 8)
        with mine.access(0, 5):
            mine.write(np.full(mine.shape, 99, np.uint8))
        answers.put(mine.export())  # pickled later, by the queue's own thread
        connection.recv()  # it is opened: this process may go


@pytest.mark.rule("I8", "X11", "X12")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_descriptors_go_to_and_fro_as_arguments_and_through_queues_and_pipes(
    device: vks.Device, surface: vks.Surface, method: str
) -> None:
    context: Any = multiprocessing.get_context(method)
    here, there = context.Pipe()
    queue, answers = context.Queue(), context.Queue()
    surface.acquire(0)
    surface.write(np.full(surface.shape, 5, np.uint8))
    surface.release(0)
    with surface.export() as descriptor, device.create_fence() as fence, fence.export() as fence_descriptor:
        arguments = (there, queue, answers, descriptor, device.backend, device.adapter.name)
        child = context.Process(target=_party, args=arguments)
        child.start()
        queue.put(descriptor)
        here.send(descriptor)
        here.send(fence_descriptor)
        with surface.access(3, 0, 60):
            assert (surface.read() == 8).all()
        fence.signal(3)
        with answers.get(timeout=30) as theirs, device.open_surface(theirs) as opened, opened.access(5, 0, 10):
            assert (opened.read() == 99).all()
        here.send("done")
        child.join(30)
    assert child.exitcode == 0
    queue.close()
    answers.close()


_kept: list[Any] = []


def _opened_in_pool(backend: str, name: str, descriptor: Any) -> Any:
    """A pool's worker: brightens what it is sent, and sends what it made. The worker lives on, and so do the fds."""
    device = vks.open(name, backend=backend)
    _brighten(device, descriptor, 0)
    mine = device.create_surface(4, 4)
    _kept.extend((device, mine))
    with mine.access(0, 0):
        mine.write(np.full(mine.shape, 3, np.uint8))
    return mine.export()


@pytest.mark.rule("I8")
@pytest.mark.parametrize("kind", ["Pool", "ProcessPoolExecutor"])
def test_descriptors_go_to_the_workers_of_a_pool_and_come_back(
    device: vks.Device, surface: vks.Surface, kind: str
) -> None:
    arguments = (device.backend, device.adapter.name, surface.export())
    if kind == "Pool":
        with multiprocessing.get_context("forkserver").Pool(1) as pool:
            _check_theirs(device, pool.apply_async(_opened_in_pool, arguments).get(60))
    else:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
            _check_theirs(device, executor.submit(_opened_in_pool, *arguments).result(60))
    with surface.access(1, 0, 10):
        assert (surface.read() == 1).all()


def _check_theirs(device: vks.Device, descriptor: Any) -> None:
    with descriptor, device.open_surface(descriptor) as opened, opened.access(0, 0, 10):
        assert (opened.read() == 3).all()


@pytest.mark.rule("I8")
def test_a_process_that_multiprocessing_did_not_start_opens_a_pickle_with_no_other_set_up(
    surface: vks.Surface, tmp_path: Path
) -> None:
    with surface.export() as descriptor:
        (tmp_path / "pickle").write_bytes(pickle.dumps(descriptor))
    code = "import pickle, sys, vkshare; print(pickle.load(open(sys.argv[1], 'rb')).spec.width)"
    reported = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, tmp_path / "pickle"], capture_output=True, text=True, timeout=60
    )
    assert reported.stdout == "24\n", reported.stderr


@pytest.mark.rule("I8")
def test_a_descriptor_that_is_closed_before_it_is_pickled_says_what_to_do(surface: vks.Surface) -> None:
    descriptor = surface.export()
    descriptor.close()
    with pytest.raises(ClosedError, match=r"Queue.*leave it open"):
        pickle.dumps(descriptor)


# ---- what waits to be fetched --------------------------------------------------------------------------------------


@pytest.mark.rule("I8")
def test_a_pickle_opened_twice_is_refused_the_second_time(
    device: vks.Device, capfd: pytest.CaptureFixture[str]
) -> None:
    with device.create_fence().export() as descriptor:
        pickled, other = pickle.dumps(descriptor), pickle.dumps(descriptor)
    pickle.loads(pickled).close()
    with pytest.raises(DescriptorError, match="was opened before"):
        pickle.loads(pickled)
    pickle.loads(other).close()
    wait_until(lambda: fd_broker._broker.listener is None)
    with pytest.raises(DescriptorError, match="was opened before"):
        pickle.loads(other)
    assert capfd.readouterr().err == ""


@pytest.mark.rule("I8")
def test_a_pickle_whose_sender_is_gone_is_refused(surface: vks.Surface) -> None:
    reading, writing = os.pipe()
    with surface.export() as descriptor, open(reading, "rb") as pickled:
        in_child(lambda: os.write(writing, pickle.dumps(descriptor)))  # and it ends
        os.close(writing)
        before = open_fds()
        with pytest.raises(DescriptorError, match=r"has exited.*keep the sender alive"):
            pickle.load(pickled)
        assert open_fds() == before


@pytest.mark.rule("I8")
def test_fds_that_nobody_fetches_are_closed_after_a_while(
    device: vks.Device, surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fd_broker, "LIFETIME", 0.1)
    with surface.export() as descriptor:
        before = open_fds()
        pickled = [pickle.dumps(descriptor) for _ in range(5)]
        wait_until(lambda: open_fds() == before)
    for each in pickled:
        with pytest.raises(DescriptorError, match="file descriptors are gone"):
            pickle.loads(each)


@pytest.mark.rule("I8", "X14")
def test_fds_that_nobody_fetches_are_bounded_and_the_newest_are_kept(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "quota", lambda: 9)
    with surface.export() as descriptor:
        before = len(open_fds())
        pickled = [pickle.dumps(descriptor) for _ in range(100)]
        assert len(open_fds()) <= before + 9 + 3  # where they are fetched, and two to wake the thread that serves them
        kept = 9 // descriptor.fd_count
        with pytest.raises(DescriptorError, match="has them no more"):
            pickle.loads(pickled[-kept - 1])
        for each in pickled[-kept:]:
            pickle.loads(each).close()


@pytest.mark.rule("I8")
def test_kept_offers_take_no_room_of_pickles(surface: vks.Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "quota", lambda: 9)
    with surface.export() as descriptor:
        kept = [fd_broker.offer(descriptor._fds, keep=True) for _ in range(10)]
        pickled = [pickle.dumps(descriptor) for _ in range(9 // descriptor.fd_count)]
        for each in pickled:
            pickle.loads(each).close()
        for offer in kept:
            fd_broker.withdraw(offer)


@pytest.mark.rule("I8", "X11")
def test_an_offer_is_withdrawn_while_the_same_thread_makes_another(surface: vks.Surface) -> None:
    """As a garbage collection does."""
    with surface.export() as descriptor:
        shared = fd_broker.offer(descriptor._fds, keep=True)
        with fd_broker._broker.lock:
            fd_broker.withdraw(shared)
        wait_until(lambda: fd_broker._broker.listener is None)


@pytest.mark.rule("I8")
def test_a_kept_offer_is_there_for_any_number_until_it_is_withdrawn(surface: vks.Surface) -> None:
    """Then the thread ends at once, and a further offer has one of its own."""
    with surface.export() as descriptor:
        for has_ended in (True, False, True):  # the thread, before the next offer
            shared = fd_broker.offer(descriptor._fds, keep=True)
            for _ in range(3):
                fd_ops.close_all(fd_broker.fetch(shared))
            (thread,) = (each for each in threading.enumerate() if each.name == "vkshare-fds")
            fd_broker.withdraw(shared)
            fd_broker.withdraw(shared)
            if has_ended:
                wait_until(lambda thread=thread: not thread.is_alive())  # type: ignore[misc]
            fd_ops.close_all(fd_broker.fetch(fd_broker.offer(descriptor._fds)))
            thread.join(30)
            assert not thread.is_alive()
            assert not Path(shared[0]).exists()
            with pytest.raises(DescriptorError, match="file descriptors are gone"):
                fd_broker.fetch(shared)
            wait_until(lambda: "vkshare-fds" not in [each.name for each in threading.enumerate()])


@pytest.mark.rule("I8", "X19")
def test_fds_are_given_to_those_of_the_same_user_who_know_the_token_only(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    with surface.export() as descriptor:
        address, token = fd_broker.offer(descriptor._fds)
        for garbage in (b"", b"x", token[:-1], token + b"x", bytes(16), bytes(5000)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.connect(address)
                sock.send(garbage)
                _, fds, _, _ = socket.recv_fds(sock, 10, 8)
                assert fds == []
        us = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: us + (threading.current_thread().name == "vkshare-fds"))
        with pytest.raises(DescriptorError, match="file descriptors are gone"):
            fd_broker.fetch((address, token))
        monkeypatch.undo()
        monkeypatch.setattr(os, "geteuid", lambda: us + (threading.current_thread().name != "vkshare-fds"))
        with pytest.raises(
            DescriptorError, match=f"cannot be trusted: .*the peer is user {us}, this process user {us + 1}"
        ):
            fd_broker.fetch((address, token))
        monkeypatch.undo()
        for fd in fd_broker.fetch((address, token)):
            os.close(fd)


@pytest.mark.rule("I8", "X14")
@pytest.mark.parametrize("patience", [3600.0, 0.1])
def test_connections_that_say_nothing_keep_no_other_waiting(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """As many as are served at a time, less one; and more than those, which go when their time is over."""
    monkeypatch.setattr(fd_broker, "_REQUEST_TIMEOUT", patience)
    count = fd_broker._MAX_CONNECTIONS + (-1 if patience > 1 else 8)
    with contextlib.ExitStack() as silent, surface.export() as descriptor:
        shared = fd_broker.offer(descriptor._fds)
        for _ in range(count):
            silent.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)).connect(shared[0])
        for fd in fd_broker.fetch(shared):
            os.close(fd)


@pytest.mark.rule("I8", "X14")
def test_fds_that_the_kernel_does_not_let_through_yet_wait_for_another_try(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes of the user may have all in flight that are allowed; a pickle beside it is none of theirs."""
    send, refused = transport.send, []

    def crowded(sock: socket.socket, data: bytes, fds: Sequence[int], timeout: float | None) -> None:
        if fds and len(fds) > 1 and len(refused) < 5:
            refused.append(timeout)
            raise TimeoutError("too many fds of this user are in flight to receivers")
        send(sock, data, fds, timeout)

    monkeypatch.setattr(transport, "send", crowded)
    with surface.export() as descriptor:
        shared, other = fd_broker.offer(descriptor._fds), fd_broker.offer(descriptor._fds[:1])
        for ending in (True, False):  # a receiver that goes meanwhile takes nothing along
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.connect(shared[0])
                sock.send(shared[1])
                wait_until(lambda ending=ending: len(refused) >= (1 if ending else 5))  # type: ignore[misc]
                if not ending:
                    data, fds, _, _ = socket.recv_fds(sock, 10, 8)
                    assert data == b"here"
                    assert len(fds) == len(descriptor._fds)
                    fd_ops.close_all(fds)
        fd_ops.close_all(fd_broker.fetch(other))
    assert set(refused) == {0}  # the thread that serves all connections did not wait


@pytest.mark.rule("I8", "X19")
def test_the_socket_of_a_pickle_is_its_users_alone_and_goes_with_the_last_pickle(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder is the first of XDG_RUNTIME_DIR, the user's in /tmp, one made for it that only the user can write."""
    shared_by_all, private = tmp_path / "s", tmp_path / "p"
    for folder, mode in ((shared_by_all, 0o777), (private, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
    cases = [
        (private, shared_by_all, private),
        (shared_by_all, private, private),
        (tmp_path / "missing", private, private),
        (tmp_path / ("long" * 30), private, private),
        (shared_by_all, shared_by_all, None),
    ]
    for runtime, in_tmp, expected in cases:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        monkeypatch.setattr(sockets, "_in_tmp", lambda in_tmp=in_tmp: in_tmp)
        with surface.export() as descriptor:
            pickled, path = pickle.dumps(descriptor), Path(fd_broker._broker.listener.path)  # type: ignore[union-attr]
            folder = path.parent
            assert expected in (None, folder)
            assert folder != shared_by_all
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            pickle.loads(pickled).close()
        wait_until(lambda: fd_broker._broker.listener is None)
        wait_until(lambda path=path: not path.exists())  # type: ignore[misc]
        wait_until(lambda folder=folder, is_kept=expected is not None: folder.exists() == is_kept)  # type: ignore[misc]


@pytest.mark.rule("I8")
def test_sockets_of_senders_that_were_killed_are_removed_by_the_next_one(
    surface: vks.Surface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with surface.export() as descriptor, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as alive:
        for _ in range(2):
            in_child(lambda: pickle.dumps(descriptor))
        old, new = tmp_path.iterdir()
        alive.bind(os.fspath(tmp_path / "vkshare-pickles-alive"))
        alive.listen()
        for path in (old, tmp_path / "vkshare-pickles-alive"):
            os.utime(path, (0, 0))
        pickle.loads(pickle.dumps(descriptor)).close()
        wait_until(lambda: fd_broker._broker.listener is None)
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {new.name, "vkshare-pickles-alive"}


@pytest.mark.rule("I8", "X14")
def test_a_sender_without_a_free_fd_answers_once_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it looks now and then, and does not spin."""
    accepted, looks = sockets.accept, []

    def accept(listener: socket.socket) -> socket.socket | None:
        looks.append(accepted(listener))
        return looks[-1]

    def child() -> None:
        shared = fd_broker.offer([0])
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(30)
            with no_fd_left():
                sock.connect(shared[0])
                sock.send(shared[1])
                wait_until(lambda: len(looks) == 2)
                time.sleep(0.3)
                assert len(looks) < 10
            data, fds, _, _ = socket.recv_fds(sock, 10, 8)
            assert (data, len(fds)) == (b"here", 1)

    monkeypatch.setattr(sockets, "accept", accept)
    in_child(child)


@pytest.mark.rule("I8", "X11")
def test_a_forked_child_has_none_of_what_waits_and_pickles_for_itself(surface: vks.Surface) -> None:
    with surface.export() as descriptor:
        before = len(open_fds())
        pickled = pickle.dumps(descriptor)

        def child() -> None:
            assert len(open_fds()) <= before + 1  # with the pipe by which it reports
            again = pickle.dumps(descriptor)
            pickle.loads(again).close()
            pickle.loads(pickled).close()  # the parent's

        in_child(child)
        with pytest.raises(DescriptorError):
            pickle.loads(pickled)


@pytest.mark.rule("I8")
def test_many_threads_pickle_and_unpickle_at_once(surface: vks.Surface) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(25):
                pickle.loads(pickle.dumps(descriptor)).close()
        except BaseException as error:
            errors.append(error)

    with surface.export() as descriptor:
        before = open_fds()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        wait_until(lambda: open_fds() == before)


# ---- sockets of event loops ----------------------------------------------------------------------------------------


@pytest.mark.rule("I8")
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=["stream", "seqpacket"])
def test_descriptors_cross_the_sockets_of_asyncio(
    surface: vks.Surface, vks_open: Open, tmp_path: Path, kind: socket.SocketKind
) -> None:
    async def main() -> vks.SurfaceDescriptor:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, kind) as listener, socket.socket(socket.AF_UNIX, kind) as client:
            listener.bind(str(tmp_path / "socket"))
            listener.listen()
            listener.setblocking(False)
            client.setblocking(False)
            accepting = asyncio.ensure_future(loop.sock_accept(listener))
            await loop.sock_connect(client, str(tmp_path / "socket"))
            server, _ = await accepting
            with server, surface.export() as descriptor:
                receiving = asyncio.create_task(asyncio.to_thread(vks.SurfaceDescriptor.recv, server, 10))
                await asyncio.sleep(0.05)  # the loop runs meanwhile
                assert not receiving.done()
                descriptor.send(client)
                return await receiving

    with asyncio.run(main()) as received:
        theirs = vks_open().open_surface(received)
    with surface.access(0, 1):
        surface.write(np.full(surface.shape, 12, np.uint8))
    with theirs.access(1, 0, 5):
        assert (theirs.read() == 12).all()


@pytest.mark.rule("I8")
def test_the_socket_of_an_asyncio_transport_is_refused_with_what_to_do(surface: vks.Surface) -> None:
    async def main() -> None:
        one, two = socket.socketpair()
        _, writer = await asyncio.open_unix_connection(sock=one)
        with two, surface.export() as descriptor, pytest.raises(TypeError, match="use one of your own"):
            descriptor.send(writer.get_extra_info("socket"))
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())
