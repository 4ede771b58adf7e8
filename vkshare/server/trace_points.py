"""What `vkshare trace` shows of a request: its steps, on the threads that take them.

Who asks is a number that both ends know: the server's pid and the client's number there. With the request's sequence it
joins the steps: the client's "call" (which waits for a reply) or "send"; the loop's "hand" (to the worker), "answer"
(by itself), "collect" (from the worker), "finish" (of what waited without one) and "reply" or "fail"; the worker's
"run". With isolation="process" the worker's step has a number of the child's own, and joins nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import AbstractContextManager

from vkshare import _sockets, _trace
from vkshare.server.messages import Op

UNKNOWN_REQUESTER = 0  # whose number is not known yet


def requester(client: int) -> int:
    """The number of a client of this process's server; 2**32 or more."""
    return os.getpid() << 32 | client


def requester_at_client(sock: socket.socket, client: int) -> int:
    """The same number, at the client's end."""
    return _sockets.check_peer(sock) << 32 | client


def step(what: str, opcode: int, requester: int, sequence: int) -> AbstractContextManager[None]:
    """What the block does is a step of that request. Only where _trace.is_on: a request is too quick for a call."""
    return _trace.request(f"{what} {_name(opcode)}", requester, sequence)


def _name(opcode: int) -> str:
    try:
        return Op(opcode).name.lower().replace("_", " ").replace("no op", "no-op")
    except ValueError:
        return f"{opcode:#x}"
