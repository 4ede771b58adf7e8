"""The render requests: functions that an Executor runs, on the client's worker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vkshare.color import Color
from vkshare.core import submissions
from vkshare.core.commands import CommandList
from vkshare.core.device import Device
from vkshare.errors import InvalidCallError, StillDrawingError
from vkshare.ipc.descriptors import FenceDescriptor, SurfaceDescriptor
from vkshare.server import messages as m
from vkshare.server.deadlock_check import identity
from vkshare.server.executor import FENCE_FDS, SURFACE_FDS, Executor, RequestResult, ServedFence
from vkshare.server.request_types import LATER, Answer, Kind, Later, Request
from vkshare.server.session_state import Route
from vkshare.util.closing import on_error

MOST_HELD = 64  # submissions of one client that wait for others

# ---- surfaces ---------------------------------------------------------------------------------------------------


def create_surface(executor: Executor, request: Request) -> Answer:
    body: m.CreateSurface = request.body
    executor.check_quota(executor.surfaces, body.id, SURFACE_FDS)
    color = None if body.color is None else Color(*body.color)
    surface = executor.device.create_surface(
        body.width, body.height, body.format, tiling=body.tiling, usage=body.usage, color=color
    )
    with on_error(surface.close):
        descriptor = surface.export()
    with descriptor:
        executor.register(executor.surfaces, body.id, surface, surface.close)
        return _given(descriptor)


def open_surface(executor: Executor, request: Request) -> Answer:
    body: m.OpenSurface = request.body
    executor.check_quota(executor.surfaces, body.id, SURFACE_FDS)
    with SurfaceDescriptor.from_bytes(body.descriptor, request.take_fds()) as descriptor:
        surface = executor.device.open_surface(descriptor)
    executor.register(executor.surfaces, body.id, surface, surface.close)
    return Answer()


def close_surface(executor: Executor, request: Request) -> None:
    executor.surface(request.body.id).close()
    del executor.surfaces[request.body.id]


# ---- fences -----------------------------------------------------------------------------------------------------


def create_fence(executor: Executor, request: Request) -> Answer:
    body: m.CreateFence = request.body
    executor.check_quota(executor.fences, body.id, FENCE_FDS)
    fence = executor.device.create_fence(body.initial)
    with on_error(fence.close):
        descriptor = fence.export()
    with descriptor:
        served = ServedFence(fence, identity(descriptor._fds[0]), executor.client)
        executor.register(executor.fences, body.id, served, fence.close)
        executor.wait_graph.add_fence(executor.client, served.identity)
        return _given(descriptor)


def open_fence(executor: Executor, request: Request) -> Answer:
    body: m.OpenFence = request.body
    executor.check_quota(executor.fences, body.id, FENCE_FDS)
    with FenceDescriptor.from_bytes(body.descriptor, request.take_fds()) as descriptor:
        page = identity(descriptor._fds[0])
        fence = executor.device.open_fence(descriptor)
    executor.register(
        executor.fences, body.id, ServedFence(fence, page, executor.wait_graph.signaller(page)), fence.close
    )
    return Answer()


def close_fence(executor: Executor, request: Request) -> None:
    served = executor.fence(request.body.id)
    del executor.fences[request.body.id]
    executor.wait_graph.remove_fence(served.identity)
    served.fence.close()


def _given(descriptor: SurfaceDescriptor | FenceDescriptor) -> Answer:
    """Returns an answer with the descriptor's own fds: duplicating them could fail, after the object was registered."""
    created = m.Created(descriptor.to_bytes())
    return Answer.of(created, descriptor._give_away()[1])


# ---- drawing ----------------------------------------------------------------------------------------------------


def submit(executor: Executor, request: Request) -> None:
    body: m.Submit = request.body
    _refuse_more_held(executor)
    commands, used = record(executor.device, body.commands, executor.surface)
    waits = [_wait(executor, number, value) for number, value in body.waits]
    signals = [_signal(executor, number, value) for number, value in body.signals]
    _refuse_unused(body, used)
    acquired = []
    try:
        for number, key in body.acquires:
            surface = executor.surface(number)
            surface.acquire(key, mode="gpu")
            acquired.append((surface, key))
        submission = executor.device.submit(commands, waits=waits, signals=signals)
    except BaseException:
        for surface, key in acquired:  # not used: released with the key of its acquire (rule K31)
            with contextlib.suppress(Exception):
                surface.release(key)
        raise
    executor.last = submission
    if submission.is_held:
        _watch(executor, request, submission)
    for number, key in body.releases:
        executor.surface(number).release(key)


def _refuse_more_held(executor: Executor) -> None:
    if len(executor.held) >= MOST_HELD:
        raise StillDrawingError(
            f"{len(executor.held)} submissions of this client wait for fences and surfaces of other parties; "
            f"allowed are {MOST_HELD}: sync() before the next"
        )


def _refuse_unused(body: m.Submit, used: set[int]) -> None:
    """Refuses an acquired surface that no command uses, because only a submission that uses it counts as held."""
    for number, _ in body.acquires:
        if number not in used:
            raise InvalidCallError(f"surface {number} is acquired, and no command uses it")


def _watch(executor: Executor, request: Request, submission: Any) -> None:
    """Watches a held submission: it may fail after its request has completed, which is a late error (rule R6)."""
    followers: list[Callable[[], list[RequestResult]]] = []
    executor.held[request] = followers

    def then(error: BaseException | None) -> list[RequestResult]:
        with executor.lock:
            executor.held.pop(request, None)
        results = [] if error is None else [RequestResult(request, error, is_late=True)]
        return results + [after for follower in followers for after in follower()]

    executor.ask(partial(submissions.notify, submission), then)


def _wait(executor: Executor, number: int, value: int) -> tuple[Any, int]:
    served = executor.fence(number)
    if served.signaller == executor.client and served.fence.queued_value < value:
        raise InvalidCallError(
            f"only a later request of this client could signal value {value} of fence {number}: "
            "submit that request first"
        )
    return served.fence, value


def _signal(executor: Executor, number: int, value: int | None) -> Any:
    fence = executor.fence(number).fence
    return fence if value is None else (fence, value)


def record(device: Device, operations: Sequence[Any], surface_of: Callable[[int], Any]) -> tuple[CommandList, set[int]]:
    """Records commands, with the surfaces of their numbers.

    Returns
    -------
    tuple[CommandList, set[int]]
        The list, and the numbers that it uses.
    """
    commands = device.record()
    used: set[int] = set()

    def surface(number: int) -> Any:
        used.add(number)
        return surface_of(number)

    for op in operations:
        match op:
            case m.ClearOp():
                commands.clear(surface(op.target), op.colour)
            case m.FillRectOp():
                commands.fill_rect(surface(op.target), op.rect, op.colour)
            case m.CopyOp():
                commands.copy(surface(op.source), surface(op.target), op.source_rect, op.at)
            case m.BlitOp():
                commands.blit(surface(op.source), surface(op.target), op.source_rect, op.target_rect, op.filter)
            case m.CompositeOp():
                pair = surface(op.source), surface(op.target)
                commands._composite(*pair, op.at, op.opacity, op.alpha, op.codes)
            case m.DrawTrianglesOp():
                texture = None if op.texture is None else surface(op.texture)
                depth = None if op.depth is None else surface(op.depth)
                test = depth, op.depth_test, op.depth_write
                commands.draw_triangles(surface(op.target), _rows(op), texture, op.filter, *test)
    return commands, used


def _rows(op: m.DrawTrianglesOp) -> Any:
    floats, rest = divmod(len(op.vertices), 4)
    if rest or floats % op.columns:
        raise ValueError(
            f"vertices are {len(op.vertices)} bytes, which is not a whole number of rows of {op.columns} float32"
        )
    return np.frombuffer(op.vertices, np.float32).reshape(-1, op.columns)


# ---- waiting, without a worker ----------------------------------------------------------------------------------


def sync(executor: Executor, request: Request) -> Answer | Later:
    """Answers once all earlier submissions of this client have run, or their failures were reported."""
    last = executor.last
    is_over = last is None or last.is_held or _is_over(last)
    with executor.lock:
        count = len(executor.held) + (not is_over)

        def follow() -> list[RequestResult]:
            nonlocal count
            count -= 1
            return [] if count else [RequestResult(request, Answer())]

        if last is not None and not is_over:
            executor.ask(partial(submissions.notify, last), lambda error: follow())
        for followers in executor.held.values():
            followers.append(follow)
        return LATER if count else Answer()


def _is_over(submission: Any) -> bool:
    try:
        return bool(submission.is_done())
    except Exception:
        return True


def wait(executor: Executor, request: Request) -> Answer | Later:
    """Answers once the fence has reached the value, or can no longer reach it."""
    body: m.Wait = request.body
    served = executor.fence(body.fence)
    if served.fence.is_done(body.value):
        return Answer()
    if served.fence.queued_value < body.value:
        executor.wait_graph.begin_wait(executor.client, served.signaller)

    def then(error: BaseException | None) -> list[RequestResult]:
        executor.wait_graph.end_wait(executor.client)
        return [RequestResult(request, Answer() if error is None else error)]

    with on_error(lambda: executor.wait_graph.end_wait(executor.client)):
        executor.ask(partial(served.fence._notify, body.value), then)
    return LATER


KINDS = (
    Kind(m.Op.CREATE_SURFACE, m.CreateSurface, Route.CAN_FAIL, create_surface),
    Kind(m.Op.OPEN_SURFACE, m.OpenSurface, Route.CAN_FAIL, open_surface, most_fds=3),
    Kind(m.Op.CLOSE_SURFACE, m.Close, Route.CANNOT_FAIL, close_surface),
    Kind(m.Op.CREATE_FENCE, m.CreateFence, Route.CAN_FAIL, create_fence),
    Kind(m.Op.OPEN_FENCE, m.OpenFence, Route.CAN_FAIL, open_fence, most_fds=2),
    Kind(m.Op.CLOSE_FENCE, m.Close, Route.CANNOT_FAIL, close_fence),
    Kind(m.Op.SUBMIT, m.Submit, Route.CANNOT_FAIL, submit),
    Kind(m.Op.SYNC, None, Route.CAN_FAIL, sync),
    Kind(m.Op.WAIT, m.Wait, Route.CAN_FAIL, wait),
)
