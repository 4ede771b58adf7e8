"""Messages of the validation layer, written to the log and passed to registered callbacks.

The layer speaks on any thread inside any call, with the core's locks held. So a C callback without
the GIL (native/backend/messages.h) only sends each message to a socket; a thread here reads it.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable

from vkshare import _native
from vkshare.backends.vulkan.api import VK, Struct, ffi, new

log = logging.getLogger("vkshare.validation")

MessageSink = Callable[[str, str, str], None]  # severity ("error" | "warning"), message id name, text

_SEVERITIES = {b"e": "error", b"w": "warning"}
_PACKET = 1 << 16  # bytes; the callback sends no larger one

_sinks: list[MessageSink] = []
_channel: Channel | None = None


class Channel:
    """The socket pair of this process, and the thread that reads it. Kept until the process ends."""

    def __init__(self) -> None:
        self._reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Never closed: driver threads may still speak when Python is gone.
        self.writer_fd = writer.detach()
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="vkshare-validation", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Returns when all that was said before the call has reached the sinks."""
        with self._lock:
            while packet := self._receive():
                identifier, _, text = packet[1:].partition(b"\0")
                _tell(_SEVERITIES[packet[:1]], identifier.decode("utf-8", "replace"), text.decode("utf-8", "replace"))

    def _receive(self) -> bytes:
        try:
            return self._reader.recv(_PACKET, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            poll.poll()
            self.flush()


def add_message_sink(sink: MessageSink) -> Callable[[], None]:
    """Has `sink(severity, message_id_name, text)` called for each message of the validation layer.

    It is called soon after the message, on a thread of its own. Returns the function that takes the
    sink away again.
    """
    _sinks.append(sink)

    def remove() -> None:
        if sink in _sinks:
            _sinks.remove(sink)

    return remove


def flush_messages() -> None:
    """Returns when all that the validation layer has said reached the sinks and the log."""
    if _channel is not None:
        _channel.flush()


def messenger_info() -> Struct:
    """The VkDebugUtilsMessengerCreateInfoEXT that sends errors and warnings here.

    Called with the instances' lock held.
    """
    global _channel
    if _channel is None:
        _channel = Channel()
    return new(
        "VkDebugUtilsMessengerCreateInfoEXT",
        messageSeverity=VK.DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK.DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        messageType=VK.DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        pfnUserCallback=ffi.cast("PFN_vkDebugUtilsMessengerCallbackEXT", _native.MESSAGE_CALLBACK),
        pUserData=ffi.cast("void *", _channel.writer_fd),
    )


def _tell(severity: str, identifier: str, text: str) -> None:
    log.log(logging.ERROR if severity == "error" else logging.WARNING, "%s: %s", identifier, text)
    for sink in tuple(_sinks):
        try:
            sink(severity, identifier, text)
        except Exception:
            log.exception("a message sink failed")


def _forget() -> None:
    """In a child after fork(): the thread is the parent's."""
    global _channel
    _channel = None


os.register_at_fork(after_in_child=_forget)
