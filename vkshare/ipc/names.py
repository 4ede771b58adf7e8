"""Published names: their sockets in the user's runtime folder, and the calls of processes that look for them (W1).

A name has a Unix socket of type SOCK_SEQPACKET, whose file is named after a hash of the name: no
character of a name can lead out of the folder. A connection carries one request, a fixed struct.
The answer is one message of msgpack; for OPEN and WATCH a descriptor's message follows. The
connections of WATCH and INPUT stay open as long as the watcher lives. On that of an INPUT it sends
its events, a message each, and need not wait for the answer.

Both sides check the folder, and that the other process is of the same user (rule X19). All that
comes is checked before it is used (rule X13).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import select
import socket
import struct
import time
import weakref
from collections import deque
from pathlib import Path
from typing import TypeVar

import msgspec

from vkshare import color, errors, formats
from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.ipc import socket_files, sockets
from vkshare.ipc.descriptors import Descriptor
from vkshare.util import fd_ops
from vkshare.util.closing import on_error

PREFIX = "vkshare-name-"  # of sockets' names
LONGEST_NAME = 64  # characters
DESCRIBE, OPEN, WATCH, INPUT = 1, 2, 3, 4
KINDS = ("surface", "pipe", "receiver", "swapchain", "compositor")

REQUEST = struct.Struct("<4sHHI")  # magic, version, one of the above, surfaces of a watcher's pipe
MOST_SURFACES = 8  # of a watcher's pipe
_MAGIC, _VERSION = b"vksN", 2
LONGEST_ANSWER = 8192  # bytes
_LONGEST_TEXT = 2000  # characters of an error
_LARGEST_SIDE = 2**31 - 1
_MOST_CALLS = 64  # of describe_all() at a time, so that a program with few file descriptors can look for many names
_CONNECT_PAUSE = 0.01  # seconds between attempts while the listener's backlog is full

_DescriptorOf = TypeVar("_DescriptorOf", bound=Descriptor)


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher's answer about itself."""

    name: str
    kind: str  # of KINDS
    width: int  # pixels
    height: int
    format: str
    color: tuple[int, int, int, int, int]  # the fields of Color by their numbers in ITU-T H.273
    rate: float  # frames a second that came lately
    backend: str  # of the device: "vulkan", "cpu" or "remote"
    adapter: bytes  # UUID
    adapter_name: str
    key: int  # by which a surface is complete
    wants_input: bool


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher's answer: what it is, or the class and the text of an error."""

    what: Description | None = None
    error: str = ""
    text: str = ""


# ---- names and their paths ---------------------------------------------------------------------------------------


def checked(name: object) -> str:
    """Returns the name. TypeError, ValueError: it is none."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    if not (1 <= len(name) <= LONGEST_NAME and name.isprintable()):
        raise ValueError(f"name is {name!r}; allowed are 1 to {LONGEST_NAME} printable characters")
    return name


def folders() -> list[Path]:
    """Returns the folders that have names: the first is the one to publish in."""
    found = sockets.folders()
    usual = Path(f"/run/user/{os.geteuid()}")  # XDG_RUNTIME_DIR, in sessions that set it
    if len(found) == 1 and usual.is_dir():
        return [usual, *found]
    return found


def file_name(name: str) -> str:
    """Returns the name of the socket's file."""
    return PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]


def path_to_publish(name: str) -> Path:
    """Returns the path of the socket. InvalidCallError: another user can write to the folder."""
    for folder in folders():
        path = folder / file_name(name)
        if len(os.fsencode(path)) <= sockets.LONGEST_PATH:
            sockets.check_private(folder)
            return path
    raise InvalidCallError(f"the path of the runtime folder is too long for a socket: {folders()[0]}")


def paths_of(name: str) -> list[Path]:
    """Returns the paths where the name may be."""
    found = [folder / file_name(name) for folder in folders()]
    return [path for path in found if len(os.fsencode(path)) <= sockets.LONGEST_PATH]


def all_paths() -> list[Path]:
    """Returns the sockets of all names, living or dead. Folders that others can write to are left out."""
    found: list[Path] = []
    for folder in folders():
        with contextlib.suppress(OSError, InvalidCallError):
            sockets.check_private(folder)
            names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(PREFIX)]
            found += [folder / each for each in sorted(names) if not each.endswith(".lock")]
    return [path for path in found if len(os.fsencode(path)) <= sockets.LONGEST_PATH]


def remove_dead(path: Path) -> None:
    """Removes the files of a name whose owner is dead."""
    socket_files.remove_dead(path, socket.SOCK_SEQPACKET)


# ---- messages ----------------------------------------------------------------------------------------------------


def request(operation: int, count: int) -> bytes:
    return REQUEST.pack(_MAGIC, _VERSION, operation, count)


def parse_request(data: bytes) -> tuple[int, int]:
    """Returns operation and count. DescriptorError: it is no request."""
    if len(data) != REQUEST.size:
        raise DescriptorError(f"a request of {len(data)} bytes; it has {REQUEST.size}")
    magic, version, operation, count = REQUEST.unpack(data)
    if magic != _MAGIC or version != _VERSION or operation not in (DESCRIBE, OPEN, WATCH, INPUT):
        raise DescriptorError(f"a request with magic {magic!r}, version {version} and operation {operation}")
    if operation == WATCH and not 1 <= count <= MOST_SURFACES:
        raise DescriptorError(f"a request to watch with {count} surfaces; allowed are 1 to {MOST_SURFACES}")
    return operation, count


def refusal(error: BaseException) -> Answer:
    """Returns the answer that has an error."""
    return Answer(error=type(error).__name__, text=str(error)[:_LONGEST_TEXT])


def pack(answer: Answer) -> bytes:
    return msgspec.msgpack.encode(answer)


def parse_answer(data: bytes) -> Description:
    """Returns the description. DescriptorError: it is none. VkshareError: the publisher's."""
    try:
        answer = msgspec.msgpack.decode(data, type=Answer)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DescriptorError(f"the publisher's answer is malformed: {error}") from None
    if answer.what is None:
        raise _error_of(answer)
    _check(answer.what)
    return answer.what


def _check(what: Description) -> None:
    """Refuses values that no publisher has."""
    known = set(formats.FORMATS)
    if not (
        1 <= len(what.name) <= LONGEST_NAME
        and what.name.isprintable()
        and what.kind in KINDS
        and 1 <= what.width <= _LARGEST_SIDE
        and 1 <= what.height <= _LARGEST_SIDE
        and what.format in known
        and _is_color(what)
        and math.isfinite(what.rate)
        and 0 <= what.rate < 1e9
        and what.backend in ("vulkan", "cpu", "remote")
        and len(what.adapter) == 16
        and len(what.adapter_name) <= 256
        and what.adapter_name.isprintable()
        and 0 <= what.key < 2**64
    ):
        raise DescriptorError(f"the publisher's description is refused: {str(what)[:500]}")


def _is_color(what: Description) -> bool:
    try:
        color.of_surface(formats.get(what.format), color.from_codes(*what.color))
    except ValueError:
        return False
    return True


def _error_of(answer: Answer) -> VkshareError:
    """The error that an answer tells. Only classes that take one text are made."""
    text = answer.text[:_LONGEST_TEXT]
    kind = getattr(errors, answer.error, None)
    if kind in (ClosedError, InvalidCallError, errors.DeviceLostError, errors.AbandonedError):
        made: VkshareError = kind(text)
        return made
    if kind is UnsupportedError:
        return UnsupportedError("the published picture", text)
    return VkshareError(f"the publisher failed: {answer.error[:100]}: {text}")


# ---- calls -------------------------------------------------------------------------------------------------------

_open_calls: weakref.WeakSet[Call] = weakref.WeakSet()


class Call:
    """A connection to a publisher, with its request sent. For one thread. close() it.

    Raises
    ------
    OSError
        No process listens there (FileNotFoundError, ConnectionError), another user's does (PermissionError),
        or the backlog is full (BlockingIOError).
    InvalidCallError
        Another user can write to the folder.
    """

    def __init__(self, path: Path, operation: int = DESCRIBE, count: int = 0) -> None:
        self.path = path
        sockets.check_private(path.parent)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with on_error(self.sock.close):
            self.sock.setblocking(False)
            self.pid = sockets.connect(self.sock, path)
            self.sock.send(request(operation, count))
        _open_calls.add(self)

    def answer(self, timeout: float) -> Description:
        """Returns the description, once it has come.

        Raises
        ------
        TimeoutError
            It has not come within `timeout` seconds.
        ClosedError
            The publisher has hung up.
        DescriptorError
            It is malformed.
        VkshareError
            The publisher's error.
        """
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(math.ceil(max(0.0, timeout) * 1000)):
            raise TimeoutError(f"process {self.pid} did not answer within {timeout:.0f} s: it may be stopped")
        try:
            data, _, flags, _ = self.sock.recvmsg(LONGEST_ANSWER)  # fds that come without room are closed
        except OSError as error:
            raise ClosedError(f"process {self.pid} ended the connection: {error.strerror}") from None
        if not data:
            raise ClosedError(f"process {self.pid} ended the connection: the name has ended")
        if flags & socket.MSG_TRUNC:
            raise DescriptorError(f"the answer of process {self.pid} is longer than {LONGEST_ANSWER} bytes")
        what = parse_answer(data)
        if file_name(what.name) != self.path.name:
            raise DescriptorError(f"process {self.pid} says that {self.path} is of the name {what.name!r}")
        return what

    def descriptor(self, kind: type[_DescriptorOf], timeout: float) -> _DescriptorOf:
        """Returns the descriptor that follows the answer. The errors are those of Descriptor.recv()."""
        try:
            return kind.recv(self.sock, timeout)
        except EOFError:
            raise ClosedError(f"process {self.pid} ended the connection: the name has ended") from None

    def is_refused(self) -> bool:
        """Whether the publisher of a call that lasts has answered with an error, or has hung up. Takes the answer."""
        if not self.is_ended:
            return False
        try:
            self.answer(0)
        except (VkshareError, TimeoutError):
            return True
        return False

    @property
    def is_ended(self) -> bool:
        """Whether the publisher has hung up, once the answer is taken."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Ends the connection. Idempotent."""
        self.sock.close()


def call(path: Path, operation: int, count: int = 0, *, timeout: float) -> Call:
    """Makes a Call; waits while the publisher's backlog is full. TimeoutError: it was so for `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return Call(path, operation, count)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the publisher at {path} took no connection for {timeout:.0f} s") from None
            time.sleep(_CONNECT_PAUSE)


def describe_all(paths: list[Path], timeout: float) -> list[tuple[int, Description]]:
    """Asks publishers, many at a time; returns the pid and the description of those that answer.

    Each has `timeout` seconds, and so have all whose backlogs are full. The files of dead publishers
    are removed. OSError: this process has no file descriptors left.
    """
    waiting, until = deque(paths), time.monotonic() + timeout
    calls: dict[int, tuple[Call, float]] = {}
    found: list[tuple[int, Description]] = []
    try:
        while waiting or calls:
            full: list[Path] = []
            while waiting and len(calls) < _MOST_CALLS:
                path = waiting.popleft()
                try:
                    one = _begun(path)
                except BlockingIOError:
                    full.append(path)
                    continue
                if one is not None:
                    calls[one.sock.fileno()] = one, time.monotonic() + timeout
            if full and time.monotonic() < until:
                waiting.extend(full)
                time.sleep(_CONNECT_PAUSE)
            for fd in _ready(calls, 0.0 if full else math.inf):
                one, _ = calls.pop(fd)
                with contextlib.closing(one), contextlib.suppress(VkshareError, TimeoutError):
                    found.append((one.pid, one.answer(0)))
    finally:
        for one, _ in calls.values():
            one.close()
    return found


def _begun(path: Path) -> Call | None:
    """Ask the publisher at a path. None: there is none. BlockingIOError: its backlog is full."""
    try:
        return Call(path)
    except InvalidCallError:
        return None
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno in fd_ops.NO_ROOM:
            raise
        if error.errno == errno.ECONNREFUSED:
            remove_dead(path)
        return None


def _ready(calls: dict[int, tuple[Call, float]], most: float) -> list[int]:
    """Wait for answers, for so many seconds at most. Return the fds of calls that have one, or whose time is over."""
    if not calls:
        return []
    poll = select.poll()
    for fd in calls:
        poll.register(fd, select.POLLIN)
    until = min(until for _, until in calls.values())
    wait = min(most, max(0.0, until - time.monotonic()))
    ready = {fd for fd, _ in poll.poll(math.ceil(wait * 1000))}
    now = time.monotonic()
    return [fd for fd, (_, until) in calls.items() if fd in ready or until <= now]


def _forget_calls() -> None:
    """In a forked child: the parent's death must end its watches, whatever the child does."""
    for each in list(_open_calls):
        each.close()


os.register_at_fork(after_in_child=_forget_calls)
