"""A main loop of GLib waits by vkshare's fds (rule E9)."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.headless_swapchains import clearing, create, show
from support.shared_handles import opened

import vkshare as vks
from vkshare.errors import AcquireTimeout

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E9")]

TURNS = 20
_IN = 1  # G_IO_IN
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


class Loop:
    """A GMainLoop of the default context; `watch` has it call functions while an fd is readable."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("glib-2.0")
        if name is None:
            pytest.skip("GLib is not installed")
        self._glib = ctypes.CDLL(name)
        self._glib.g_main_loop_new.restype = ctypes.c_void_p
        self._glib.g_unix_fd_add.argtypes = ctypes.c_int, ctypes.c_int, _Callback, ctypes.c_void_p
        self._loop = ctypes.c_void_p(self._glib.g_main_loop_new(None, False))
        self._kept: list[Any] = []
        self._sources: list[int] = []
        self._error: BaseException | None = None

    def watch(self, fd: int, take: Callable[[], bool]) -> None:
        """`take` returns whether the loop is to end."""

        def call(_: int, __: int, ___: Any) -> int:
            try:
                is_over = take()
            except BaseException as error:
                self._error, is_over = error, True
            if is_over:
                self._glib.g_main_loop_quit(self._loop)
            return True

        self._kept.append(_Callback(call))
        self._sources.append(self._glib.g_unix_fd_add(fd, _IN, self._kept[-1], None))

    def run(self) -> None:
        self._glib.g_main_loop_run(self._loop)
        for source in self._sources:  # Qt's loop may have the same context, and the fds are about to be closed
            self._glib.g_source_remove(source)
        self._glib.g_main_loop_unref(self._loop)
        if self._error is not None:
            raise self._error


def test_keys_are_taken_in_glibs_loop(vks_open: Callable[..., vks.Device]) -> None:
    surface = vks_open().create_surface(8, 8)
    other, loop, taken = opened(surface, vks_open()), Loop(), list[int]()

    def take() -> bool:
        try:
            other.acquire(1, timeout=0)
        except AcquireTimeout:
            return False  # the loop calls again
        taken.append(len(taken))
        other.release(0)
        return len(taken) == TURNS

    def hand_over() -> None:
        for _ in range(TURNS):
            surface.acquire(0, 30)
            surface.release(1)

    loop.watch(other.acquire_fd(1), take)
    thread = threading.Thread(target=hand_over)
    thread.start()
    loop.run()
    thread.join(30)
    assert len(taken) == TURNS


def test_frames_of_a_pipe_and_of_a_swapchain_come_in_glibs_loop(vks_open: Callable[..., vks.Device]) -> None:
    device, loop, sent, received = vks_open(), Loop(), list[int](), list[bytes]()
    sender, descriptor = vks.pipe(device, 8, 8, metadata_size=1)
    with sender, descriptor, vks.open_receiver(vks_open(), descriptor) as receiver, create(device) as swapchain:

        def receive() -> bool:
            try:
                with receiver.frame(timeout=0) as (_, metadata):
                    received.append(metadata)
            except AcquireTimeout:
                return False
            return len(received) == TURNS

        def draw() -> bool:
            show(swapchain, clearing(1))
            with contextlib.suppress(AcquireTimeout):  # the loop has not received the frames before yet
                with sender.frame(bytes([len(sent)]), timeout=0) as frame:
                    device.submit(device.record().clear(frame.view, (0, 0, 0, 1)))
                sent.append(len(sent))
            return False

        loop.watch(receiver.fileno(), receive)
        loop.watch(swapchain.frame_fd(), draw)
        loop.run()
    assert received == [bytes([number]) for number in range(TURNS)]
