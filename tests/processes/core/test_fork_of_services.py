"""Fork: what a child may not use of clients, servers, compositors and queues, which are its parent's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.child_processes import in_child

import vkshare as vks
from vkshare.errors import InvalidCallError
from vkshare.util.forks import OwnLock

Call = Callable[[], Any]


def _refused_in_a_child(calls: Sequence[Call]) -> None:
    def child() -> None:
        for number, call in enumerate(calls):
            try:
                reported = f"it gave {call()!r}"
            except InvalidCallError as error:
                reported = str(error)
            assert "spawn" in reported, f"call {number} was not refused: {reported}"

    in_child(child)


@pytest.fixture
def server(vks_device: vks.Device, tmp_path: Path) -> Iterator[vks.server.RenderServer]:
    with vks.server.RenderServer(vks_device, tmp_path / "server") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.rule("X11")
def test_after_fork_a_server_and_its_client_are_refused_and_serve_the_parent(server: vks.server.RenderServer) -> None:
    with vks.server.Client(server.path, timeout=30) as client:
        surface, fence = client.create_surface(8, 8), client.create_fence()
        _refused_in_a_child(
            [
                client.ping,
                client.statistics,
                client.sync,
                client.errors,
                client.events,
                client.close,
                client.create_fence,
                lambda: client.create_surface(8, 8),
                lambda: client.open_surface(surface.descriptor),  # type: ignore[arg-type]
                lambda: client.open_fence(fence.descriptor),  # type: ignore[arg-type]
                lambda: client.submit(signals=[fence]),
                lambda: client.submit(client.record().clear(surface, (1, 1, 1, 1))),
                lambda: fence.wait(0, 1),
                surface.close,
                fence.close,
                server.statistics,
                server.shutdown,
                server.serve_forever,
                server.close,
                lambda: server.serve_once(0),
                lambda: server.call_soon(print),
            ]
        )
        for _ in range(20):
            client.ping()
        client.submit(signals=[fence])
        client.sync()
        assert not server.is_closed


@pytest.mark.rule("X11")
def test_after_fork_a_compositor_and_its_windows_are_refused_and_go_on_in_the_parent(vks_device: vks.Device) -> None:
    with ExitStack() as stack:
        compositor = stack.enter_context(vks.compositor.Compositor(vks_device, vks.Headless(32, 24)))
        sender, descriptor = vks.pipe(vks_device, 8, 8)
        stack.enter_context(sender)
        with descriptor:
            window = compositor.open_window(descriptor)
            service = stack.enter_context(vks.compositor.Service([compositor]))
            calls: list[Call] = [
                lambda: compositor.capture(5),
                lambda: compositor.open_window(descriptor),
                lambda: compositor.windows,
                lambda: compositor.wait(1),
                lambda: compositor.window_at(1, 1),
                lambda: compositor.post(None),  # type: ignore[arg-type]
                lambda: compositor.move(compositor.display),
                compositor.statistics,
                window.statistics,
                window.close,
                window.raise_to_top,
                window.lower_to_bottom,
                lambda: window.move(1, 1),
                lambda: window.fade(0.5),
                lambda: window.move_to(None),  # type: ignore[arg-type]
                lambda: compositor.display.set_source(None),
                service.close,
                sender.frame().__enter__,
                sender.close,
            ]
            _refused_in_a_child(calls)
        assert compositor.windows == (window,)
        assert compositor.is_running


@pytest.mark.rule("X11")
def test_after_fork_a_desktop_is_refused_and_goes_on_in_the_parent(vks_device: vks.Device, tmp_path: Path) -> None:
    with ExitStack() as stack:
        compositor = stack.enter_context(vks.compositor.Compositor(vks_device, vks.Headless(32, 24)))
        service = stack.enter_context(vks.compositor.Service([compositor]))
        server = stack.enter_context(vks.server.RenderServer(vks_device, tmp_path / "server", kinds=service.kinds))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        desktop = stack.enter_context(vks.compositor.Desktop(server.path, device=vks_device))
        window = desktop.open_window(8, 8)
        _refused_in_a_child(
            [
                desktop.poll,
                desktop.close,
                lambda: desktop.windows,
                lambda: desktop.open_window(8, 8),
                window.events,
                window.statistics,
                window.raise_to_top,
                window.observe,
                window.close,
                lambda: window.move(1, 1),
                lambda: window.fade(0.5),
                lambda: next(window.ticks()),
                window.frame().__enter__,
            ]
        )
        assert desktop.windows == (window,)
        window.move(1, 1)
        assert not window.end


@pytest.mark.rule("X11")
def test_after_fork_a_queue_is_refused_and_works_in_the_parent(vks_device: vks.Device) -> None:
    with vks.SurfaceQueue(vks_device, 8, 8, count=2) as queue, queue.clone() as other:
        producer, consumer = other.open_producer(vks_device), queue.open_consumer(vks_device)
        far_ends = queue.open_producer(vks_device), other.open_consumer(vks_device)
        _refused_in_a_child(
            [
                queue.clone,
                queue.export,
                queue.statistics,
                queue.close,
                lambda: queue.open_producer(vks_device),
                lambda: consumer.dequeue(0),
                lambda: producer.flush(False),
                consumer.recover,
                consumer.close,
                producer.close,
            ]
        )
        surface, _ = consumer.dequeue(5)
        producer.enqueue(surface)
        del far_ends


@pytest.mark.rule("X11")
def test_after_fork_a_lock_that_another_thread_holds_is_not_waited_for() -> None:
    lock = OwnLock(object())
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(60)

    def child() -> None:
        assert not lock.is_here
        with pytest.raises(InvalidCallError, match=r"os\.fork\(\)"), lock:
            pass

    try:
        in_child(child)
    finally:
        over.set()
        thread.join()
    with lock, lock:
        assert lock.is_here


@pytest.mark.rule("M6")
@pytest.mark.parametrize("event", ["call", "return"])
@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_an_interrupt_at_the_edge_of_a_block_leaves_the_lock_free(method: str, event: str) -> None:
    """Python raises KeyboardInterrupt where a Python function starts and ends, never inside a C function."""
    lock = OwnLock(object())

    def interrupt(frame: FrameType, at: str, _: Any) -> Any:
        if frame.f_code.co_name == method and at == event:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    with suppress(KeyboardInterrupt):
        sys.settrace(interrupt)
        try:
            with lock:
                pass
        finally:
            sys.settrace(before)
    free: list[bool] = []
    thread = threading.Thread(target=lambda: free.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    assert free == [True]
