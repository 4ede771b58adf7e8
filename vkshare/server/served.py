"""One client as the server has it: its connection, its conversation, its worker. For the loop's thread alone."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare import _fds, _trace, _transport
from vkshare.errors import DeviceLostError, RemoteLostError
from vkshare.server import marks, wire
from vkshare.server.conversation import Conversation, Decision, Do, Route
from vkshare.server.executor import Told
from vkshare.server.kinds import Answer, Request, checked
from vkshare.server.loop import GARBAGE, GONE, READ, WRITE
from vkshare.server.messages import Body, Event, Op, encode, failure
from vkshare.server.worker import Outcome, Worker, bare

if TYPE_CHECKING:
    from vkshare.server.server import RenderServer

_log = logging.getLogger("vkshare.server")

STEPS = 16  # requests of one client in a turn of the loop (rule R8)


@dataclass(slots=True)
class _Unsent:
    """A message, or what is left of it, that found no room. Owns the fds."""

    data: memoryview
    fds: list[int]
    is_counted: bool = False  # the conversation was told of it


class ServedClient:
    """One client of a RenderServer.

    Attributes
    ----------
    number
        Never used again for another client of this server.
    name, pid
        What it calls itself, and its process.
    notes
        For plug-ins: whatever they keep of it, by their own keys.
    """

    def __init__(self, server: RenderServer, sock: socket.socket, number: int, pid: int, now: float) -> None:
        self.server = server
        self.number = number
        self.name = ""
        self.pid = pid
        self.notes: dict[object, object] = {}
        self.conversation: Conversation[Request] = Conversation(
            number, server.generation, now, patience=server.patience, most_output_fds=_transport.quota()
        )
        self.worker: Worker | None = None
        self._sock = sock
        self._splitter = wire.Splitter(lambda opcode, n_fds: checked(server.kinds, opcode, n_fds))
        self._unsent: deque[_Unsent] = deque()
        self._closing: list[Callable[[ServedClient], object]] = []
        self._asker = marks.asker(number)
        server.loop.add(sock.fileno(), READ, self._something, self._asker)

    @property
    def is_closed(self) -> bool:
        return self._sock.fileno() < 0

    @property
    def unfinished_fds(self) -> int:
        """File descriptors of a message that is not whole (rule R20)."""
        return self._splitter.fd_count

    @property
    def unfinished_since(self) -> float:
        """When that message began. One that came in this turn of the loop began last."""
        since = self.conversation.unfinished_since
        return math.inf if since is None else since

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """An error of ours that nobody foresaw ends this client, and not the loop."""
        try:
            yield
        except Exception:
            _log.exception("client %d: the server failed", self.number)
            self.server.counts.failed += 1
            self._end("the server has failed: its log says how")

    # ---- what plug-ins may use ------------------------------------------------------------------------------------

    def tell(self, opcode: int, body: Body, fds: Sequence[int] = ()) -> None:
        """Sends what the client did not ask for; takes over the fds. Nothing happens to a client that is gone."""
        self._send(Op.EVENT, 0, encode(Event(opcode, encode(body))), list(fds))
        self.server.has_work(self)  # what found no room is watched for

    def on_close(self, call: Callable[[ServedClient], object]) -> None:
        """call(client) is called by the loop when it goes, whatever the reason."""
        self._closing.append(call)

    def cut_off(self, why: str) -> None:
        """Ends the connection: the client is told why."""
        self._end(why)

    # ---- reading --------------------------------------------------------------------------------------------------

    def _something(self, what: int, owed: Sequence[int]) -> None:
        with self.alone():
            for sequence in owed:
                self._send(Op.REPLY, sequence)
            if what & GONE:  # nobody would read a reply
                self._end("")
            elif what & GARBAGE:
                self._garbage("file descriptors came with a no-op")
            else:
                if what & WRITE:
                    self._flush()
                if what & READ:
                    self._read()
        self.server.has_work(self)

    def _read(self) -> None:
        try:
            data, fds, has_lost_fds = wire.receive(self._sock, socket.MSG_DONTWAIT)
            if not data:
                return self._end("")
            for message in self._splitter.feed(data, fds, has_lost_fds):
                self._arrived(message)
        except BlockingIOError:
            pass
        except OSError:
            self._end("")
        except wire.Garbage as error:
            self._garbage(str(error))
        return None

    def _arrived(self, message: wire.Message) -> None:
        try:
            if not self.conversation.is_open:
                return
            request = Request.of(message, self.server.kinds)
            message = wire.Message(0, 0, 0, b"")  # the request's from now on
            self.conversation.arrived(request)
        except wire.Garbage as error:
            self._garbage(str(error))
        finally:
            message.close()

    def _garbage(self, why: str) -> None:
        self.server.counts.garbage += 1
        self._end(why)

    # ---- deciding -------------------------------------------------------------------------------------------------

    def serve(self, now: float) -> bool:
        """Dispatches what it has, a few requests at a time; whether there is more (rules R4, R8)."""
        for _ in range(STEPS):
            decision = self.conversation.step(now)
            if decision is None:
                break
            self._do(decision)
        self.conversation.unfinished(self.unfinished_fds > 0, now)
        if self.unfinished_fds:
            self.server.bound_unfinished_fds()
        self._watch()
        return decision is not None

    def due(self, now: float) -> None:
        """It is `now`."""
        self._do(self.conversation.due(now))
        self._watch()

    def _do(self, decision: Decision[Request] | None) -> None:
        if decision is None:
            return
        request = decision.request
        if decision.do in (Do.CUT_OFF, Do.LOSE):
            self.server.counts.lost += decision.do is Do.LOSE
            self.server.counts.cut_off += decision.do is Do.CUT_OFF
            if decision.do is Do.LOSE and self.worker is not None:
                self.worker.abandon()
            return self._end(decision.why)
        if decision.do is Do.SEND:
            return self._flush()
        assert request is not None
        if decision.do is Do.ANSWER:
            self._answer(request)
        elif decision.do is Do.HIRE:
            self._hire()
        elif decision.do is Do.HAND:
            assert self.worker is not None
            with self._step("hand", request):
                self.worker.give(request)
        elif decision.do is Do.FINISH:
            self._finish(request, decision.outcome)
        elif decision.do is Do.REFUSE:
            self._refuse(request, decision.outcome)
        elif decision.do is Do.DEFER:
            assert isinstance(decision.outcome, BaseException)
            self._fail(Op.DEFERRED, request, decision.outcome)
        return None

    def _answer(self, request: Request) -> None:
        try:
            with self._step("answer", request):
                if request.refused is not None:
                    raise request.refused
                answer = request.kind.run(self, request)
        except Exception as error:
            self._fail(_failure_op(request), request, bare(error))
        else:
            self._reply(request, answer or Answer())
        finally:
            request.close()

    def _hire(self) -> None:
        try:
            self.worker = self.server.hire(self)
        except Exception as error:  # no memory, no fd: there may be some for the next request
            _log.exception("client %d: no worker could be started", self.number)
            request = self.conversation.not_hired()
            request.close()
            self._fail(_failure_op(request), request, bare(error))

    def _finish(self, request: Request, outcome: object) -> None:
        try:
            if isinstance(outcome, BaseException):
                self._fail(Op.ERROR, request, outcome)
                return
            assert isinstance(outcome, Answer)
            if request.kind.finish is not None:
                outcome = request.kind.finish(self, request, outcome)
            self._reply(request, outcome)
        except Exception as error:
            self._fail(Op.ERROR, request, bare(error))

    def _refuse(self, request: Request, outcome: object) -> None:
        request.close()
        if isinstance(outcome, Answer):
            _fds.close_all(outcome.fds)
        generation = self.conversation.device_generation
        lost = DeviceLostError(f"the server's device is lost; its next one is generation {generation}")
        self._fail(_failure_op(request), request, lost)

    # ---- what the worker has to tell --------------------------------------------------------------------------------

    def news(self) -> None:
        """The hub told of the worker itself."""
        if self.worker is not None:
            for request, outcome in self.worker.news():
                with self._step("collect", request):
                    self.completed(request, outcome)
        self.server.has_work(self)

    def happened(self, serial: int, error: BaseException | None) -> None:
        """The hub told of something that the client's executor waits for."""
        found = [] if self.worker is None else self.worker.happened(serial, error)
        if (
            found
        ):  # a sync may be among them: what came before it is done, and its news may stand behind this in the hub
            self.news()
        for told in found:
            self.told(told)

    def told(self, told: Told) -> None:
        """An outcome that came without the worker's thread."""
        if told.is_late:
            self.server.look_for_loss(self, told.request, told.outcome)
            self._do(self.conversation.failed_late(told.request, told.outcome))
        else:
            with self._step("finish", told.request):
                self.completed(told.request, told.outcome)
        self.server.has_work(self)

    def hired(self) -> None:
        """There is a worker, who is ready."""
        self.conversation.hired()
        self.server.has_work(self)

    def fired(self, why: str) -> None:
        """The worker is gone by itself."""
        self.server.counts.lost += 1
        self._end(f"the worker of client {self.number} is gone: {why}")

    def completed(self, request: Request, outcome: Outcome) -> None:
        """The oldest request that is out is done, or waits for something else."""
        self.server.has_work(self)
        if isinstance(outcome, wire.Garbage):
            self._garbage(str(outcome))
        elif isinstance(outcome, (Answer, BaseException)):
            self.server.look_for_loss(self, request, outcome)
            failed = isinstance(outcome, BaseException)
            if self.conversation.expects(request):
                self._do(self.conversation.completed(request, outcome, self.server.now(), failed=failed))
            else:
                self.server.drop(outcome)
        else:
            self.conversation.waits_elsewhere(request)

    # ---- writing --------------------------------------------------------------------------------------------------

    def _reply(self, request: Request, answer: Answer) -> None:
        with self._step("reply", request):
            self._send(Op.REPLY, request.sequence, answer.body, answer.fds)

    def _fail(self, op: Op, request: Request, error: BaseException) -> None:
        with self._step("fail", request):
            self._send(op, request.sequence, encode(failure(error)))

    def _step(self, what: str, request: Request) -> AbstractContextManager[None]:
        """What the block does is a step of the request, in a trace."""
        if not _trace.is_on:
            return _trace.NOTHING
        return marks.step(what, request.kind.opcode, self._asker, request.sequence)

    def _send(self, op: Op, sequence: int, body: bytes = b"", fds: list[int] | None = None) -> None:
        """Sends what finds room, keeps the rest; takes over the fds. Never waits (rule R12)."""
        fds = fds or []
        if self.is_closed:
            return _fds.close_all(fds)
        try:
            data = wire.pack(op, sequence, self.conversation.device_generation, body, len(fds))
        except ValueError:
            _fds.close_all(fds)
            raise
        last = _Unsent(memoryview(data), fds)
        self._unsent.append(last)
        if self._unsent[0] is last:
            self._flush()
        if self._unsent and not self.is_closed:
            last.is_counted = True
            self._do(self.conversation.queued(len(last.data), len(last.fds)))
        return None

    def _flush(self) -> None:
        while self._unsent and not self.is_closed:
            head = self._unsent[0]
            try:
                sent = wire.transmit(self._sock, head.data, head.fds, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError as error:
                _log.debug("client %d: %s", self.number, error)
                if error.errno != errno.ETOOMANYREFS:
                    return self._end("")
                # More fds of this user are under way than the kernel allows, in whichever process.
                return self._do(self.conversation.congested(True, self.server.now()))
            self.conversation.congested(False, 0.0)
            if head.is_counted:
                self.conversation.wrote(sent, len(head.fds))
            _fds.close_all(head.fds)
            head.fds = []
            head.data = head.data[sent:]
            if not head.data:
                self._unsent.popleft()
        return None

    def _watch(self) -> None:
        """What the loop is to tell of it, and whether no-ops may be answered without asking."""
        if self.is_closed:
            return
        conversation = self.conversation
        can_write = self._unsent and not conversation.is_congested
        interest = (READ if conversation.is_attended else 0) | (WRITE if can_write else 0)
        answers_no_ops = conversation.is_idle and self._splitter.is_empty and not self._unsent
        self.server.loop.watch(self._sock.fileno(), interest, answers_no_ops)

    # ---- ending ---------------------------------------------------------------------------------------------------

    def _end(self, why: str) -> None:
        """The connection ends; with a reason, the client is told as far as that finds room. Idempotent."""
        if self.is_closed:
            return
        if why:
            _log.info("client %d %r: %s", self.number, self.name, why)
            self._last_word(why)
        self.server.loop.remove(self._sock.fileno())
        self._sock.close()
        requests, outcome = self.conversation.close()
        for request in requests:
            request.close()
        if isinstance(outcome, Answer):
            self.server.drop(outcome)
        self._splitter.close()
        for unsent in self._unsent:
            _fds.close_all(unsent.fds)
        self._unsent.clear()
        self.server.gone(self)
        for call in self._closing:
            try:
                call(self)
            except Exception:
                _log.exception("client %d: a plug-in could not let go of it", self.number)

    def _last_word(self, why: str) -> None:
        if self._unsent:
            return  # in the middle of another message, maybe
        data = wire.pack(Op.LOST, 0, self.conversation.device_generation, encode(failure(RemoteLostError(why))))
        with contextlib.suppress(OSError):
            wire.transmit(self._sock, data, (), socket.MSG_DONTWAIT)


def _failure_op(request: Request) -> Op:
    """What says that it failed."""
    return Op.DEFERRED if request.kind.route is Route.CANNOT_FAIL else Op.ERROR
