"""Request types: the body, the route and the function of each. Plug-ins define further ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from vkshare.server.messages import Body, Op, decode, encode
from vkshare.server.session_state import Route
from vkshare.server.wire import IN_MEMORY, LostFds, Message, ProtocolError

_FIRST_PLUG_IN, _LAST_PLUG_IN = int(Op.PLUG_INS), IN_MEMORY - 1


@dataclass(slots=True)
class Answer:
    """The reply to a request. Owns its fds until it is sent."""

    body: bytes = b""
    fds: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, body: Body | None, fds: Iterable[int] = ()) -> Answer:
        return cls(encode(body), list(fds))


class Later:
    """The type of LATER, which run() returns if the answer follows later, without the worker: see Executor.ask()."""


LATER: Final = Later()


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of request.

    Parameters
    ----------
    opcode
        For plug-ins: 0x100 to 0x3FFF.
    body
        Type of its body; None: it has no body.
    route
        INLINE: the loop calls run(client, request), which must return at once; `client` is a
        ServedClient. After LATER the client's next requests run, and client.answer() replies.
        CAN_FAIL, CANNOT_FAIL: the client's worker calls run(executor, request); `executor` is an
        Executor.
    run
        Returns an Answer (None: an empty one), or LATER. The client gets the error that it
        raises. It may take the request's fds; fds that it does not take are closed. With
        isolation="process" it must be a module's function.
    most_fds
        The most file descriptors that such a request may carry.
    finish
        The loop calls finish(client, request, answer) with the result of a request that can fail;
        it returns the answer to send. A plug-in can update its state there, on the loop's thread.
    loads
        INLINE: bodies of up to 16 MiB may come in memory, and run() calls request.load() first.
    """

    opcode: int
    body: type[Body] | None
    route: Route
    run: Callable[[Any, Request], Any]
    most_fds: int = 0
    finish: Callable[[Any, Request, Answer], Answer] | None = None
    loads: bool = False


@dataclass(slots=True, eq=False)
class Request:
    """A message of a known type. `body` is decoded before run() is called.

    Attributes
    ----------
    refused
        The error that the client gets, in the order of its requests, instead of running this one.
    """

    message: Message
    kind: Kind
    body: Any = None
    refused: OSError | None = None

    @classmethod
    def of(cls, message: Message, kinds: dict[int, Kind]) -> Request:
        """Checks a message as far as the loop can do so at once.

        ProtocolError: unknown opcode, or out of its bounds.
        """
        in_memory = message.opcode & IN_MEMORY
        kind = checked(kinds, message.opcode, len(message.fds))
        request = cls(message, kind)
        if message.has_lost_fds:
            request.refused = LostFds("this request, in the server")
            return request
        if not in_memory:
            request.body = decode(kind.body, message.body)
        elif message.body or (kind.route is Route.INLINE and not kind.loads):
            raise ProtocolError(f"the body of opcode {kind.opcode:#x} cannot be in memory")
        return request

    def load(self) -> None:
        """Copies and decodes a body in memory. Raises ProtocolError."""
        if self.message.opcode & IN_MEMORY:
            self.body = decode(self.kind.body, self.message.body_in_memory())

    @property
    def sequence(self) -> int:
        return self.message.sequence

    @property
    def generation(self) -> int:
        return self.message.generation

    @property
    def route(self) -> Route:
        return self.kind.route if self.refused is None else Route.INLINE

    @property
    def is_hello(self) -> bool:
        return self.kind.opcode == Op.HELLO

    def take_fds(self) -> list[int]:
        """Returns the fds, which the caller owns from now on."""
        return self.message.take_fds()

    def close(self) -> None:
        """Closes the fds that were not taken."""
        self.message.close()


def checked(kinds: dict[int, Kind], opcode: int, n_fds: int) -> Kind:
    """Returns the request type of an opcode. ProtocolError: there is none, or it carries fewer fds."""
    in_memory = opcode & IN_MEMORY
    kind = kinds.get(opcode ^ in_memory)
    if kind is None:
        raise ProtocolError(f"there is no request with opcode {opcode:#x}")
    if n_fds > kind.most_fds + bool(in_memory):
        raise ProtocolError(f"opcode {kind.opcode:#x} carries at most {kind.most_fds} fds, and {n_fds} came")
    return kind


def table(own: Iterable[Kind], plugged_in: Iterable[Kind]) -> dict[int, Kind]:
    """Returns the request types by opcode. ValueError: an opcode is taken twice, or is outside the plug-ins' range."""
    kinds = {kind.opcode: kind for kind in own}
    for kind in plugged_in:
        if not _FIRST_PLUG_IN <= kind.opcode <= _LAST_PLUG_IN:
            raise ValueError(
                f"a kind's opcode is {kind.opcode:#x}; plug-ins have {_FIRST_PLUG_IN:#x} to {_LAST_PLUG_IN:#x}"
            )
        if kind.opcode in kinds:
            raise ValueError(f"opcode {kind.opcode:#x} is taken twice")
        kinds[kind.opcode] = kind
    return kinds
