"""Trace points of a request: its steps in `vkshare trace`, on the threads that run them.

The requester is a number that both ends know: the server's pid and the client's number there. The
requester and the request's sequence join the steps: the client's "call" (which waits for a reply)
or "send"; the loop's "dispatch" (to the worker), "answer" (inline), "collect" (from the worker),
"finish" (of a request that waited without one) and "reply" or "fail"; the worker's "run". With
isolation="process" the worker's step has the child's own number, and joins no other.
"""

from __future__ import annotations

import os
import socket
from contextlib import AbstractContextManager

from vkshare.ipc import sockets
from vkshare.server.messages import Op
from vkshare.util import trace

UNKNOWN_REQUESTER = 0  # before the server has sent the client's number


def requester(client: int) -> int:
    """Returns the number of a client of this process's server; 2**32 or more."""
    return os.getpid() << 32 | client


def requester_at_client(sock: socket.socket, client: int) -> int:
    """Returns the same number, at the client's end."""
    return sockets.check_peer(sock) << 32 | client


def step(what: str, opcode: int, requester: int, sequence: int) -> AbstractContextManager[None]:
    """Records the block as a step of that request, in a trace."""
    if not trace.is_on:
        return trace.NOTHING
    return trace.request(f"{what} {_name(opcode)}", requester, sequence)


def _name(opcode: int) -> str:
    try:
        return Op(opcode).name.lower().replace("_", " ").replace("no op", "no-op")
    except ValueError:
        return f"{opcode:#x}"
