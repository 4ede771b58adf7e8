"""Kinds of requests: what each is decoded as, who runs it, and what comes back. The place where others plug in."""

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
    """What a request's reply says. Owns its fds until it is sent."""

    body: bytes = b""
    fds: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, body: Body | None, fds: Iterable[int] = ()) -> Answer:
        return cls(encode(body), list(fds))


class Later:
    """What run() returns when the answer comes later, without the worker: see Executor.ask()."""


LATER: Final = Later()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request.

    Parameters
    ----------
    opcode
        Of plug-ins: 0x100 to 0x3FFF.
    body
        What its body must decode as; None: it has none.
    route
        INLINE: run(client, request) is called by the loop, and must take no time; `client` is a ServedClient.
        CAN_FAIL, CANNOT_FAIL: run(executor, request) is called by the client's worker; `executor` is an Executor.
    run
        Returns an Answer (of CANNOT_FAIL: nothing), or LATER. What it raises is the client's error. It may take the
        request's fds; those that it leaves are closed. With isolation="process" it must be a function of a module.
    most_fds
        That such a request may carry.
    finish
        Called by the loop when a request that can fail has its result: finish(client, request, answer) returns the
        answer to send. For what a plug-in wants to note where no other thread is.
    """

    opcode: int
    body: type[Body] | None
    route: Route
    run: Callable[[Any, Request], Any]
    most_fds: int = 0
    finish: Callable[[Any, Request, Answer], Answer] | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A message of a known kind. `body` is decoded before run() sees it.

    Attributes
    ----------
    refused
        Why it cannot be run, which its client is told in its turn.
    """

    message: Message
    kind: Kind
    body: Any = None
    refused: OSError | None = None

    @classmethod
    def of(cls, message: Message, kinds: dict[int, Kind]) -> Request:
        """Checked as far as the loop can do so at once. ProtocolError: there is no such kind, or it is out of its bounds."""
        in_memory = message.opcode & IN_MEMORY
        kind = checked(kinds, message.opcode, len(message.fds))
        request = cls(message, kind)
        if message.has_lost_fds:
            request.refused = LostFds("this request, in the server")
            return request
        if not in_memory:
            request.body = decode(kind.body, message.body)
        elif kind.route is Route.INLINE or message.body:
            raise ProtocolError(f"the body of opcode {kind.opcode:#x} cannot be in memory")
        return request

    def load(self) -> None:
        """By the worker: a body in memory is copied, and then looked at. ProtocolError."""
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
        """The fds, the caller's from now on."""
        return self.message.take_fds()

    def close(self) -> None:
        """Closes the fds that nobody took."""
        self.message.close()


def checked(kinds: dict[int, Kind], opcode: int, n_fds: int) -> Kind:
    """The kind of a message with that opcode. ProtocolError: there is none, or it has not so many fds."""
    in_memory = opcode & IN_MEMORY
    kind = kinds.get(opcode ^ in_memory)
    if kind is None:
        raise ProtocolError(f"there is no request with opcode {opcode:#x}")
    if n_fds > kind.most_fds + bool(in_memory):
        raise ProtocolError(f"opcode {kind.opcode:#x} carries at most {kind.most_fds} fds, and {n_fds} came")
    return kind


def table(own: Iterable[Kind], plugged_in: Iterable[Kind]) -> dict[int, Kind]:
    """Kinds by opcode. ValueError: one is taken twice, or is not a plug-in's to take."""
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
