"""What CUDAFence asks of a fence and of CUDA, in which order, and what becomes of it when something fails. No GPU."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from support.fake_driver import CAPTURING, FAILED, HERE, FakeDriver

from vkshare.errors import AbandonedError, ClosedError, InvalidCallError
from vkshare.interop.cuda import CUDAFence
from vkshare.interop.cuda.driver import CUDAError

pytest_plugins = ["support.fake_driver"]
pytestmark = pytest.mark.no_driver


class Stage:
    """A CUDAFence over nothing: `done` is what was asked of the fence and of the timeline."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.before = 0  # what is promised, and not reached
        self.codes: dict[str, int] = {}  # what CUDA returns, by what it is asked for: "wait 0" is the look at a stream
        self.hook: Callable[[str], None] = lambda asked: None
        self.stops_before = False  # Ctrl-C is heard just before CUDA is asked for a signal
        self.shared = shared = CUDAFence.__new__(CUDAFence)
        shared._gpu, shared._pid = HERE, os.getpid()
        shared._lock = shared._signalling = MagicMock()
        shared._waits = shared._signals = 0
        shared._fence = MagicMock(
            _external_wait=self._external_wait,
            _external_begin=lambda value: self._ask(f"promise {value}", self.before),
            _external_end=lambda value: self._ask(f"given {value}"),
            _external_lost=lambda: self._ask("lost"),
        )
        shared._timeline = MagicMock(
            wait=lambda value, stream: self._ask(f"wait {value}", self.codes.get(f"wait {value}", 0)),
            signal=self._signal,
            given=0,
            detach=lambda: self._ask("detach", 0x20),
        )

    def _ask(self, asked: str, answer: int = 0) -> int:
        self.done.append(asked)
        self.hook(asked)
        return answer

    def _signal(self, value: int, stream: int) -> int:
        code = self.codes.get(f"signal {value}", 0)
        if self.stops_before:
            raise KeyboardInterrupt
        if not code:
            timeline: Any = self.shared._timeline
            timeline.given = value
        return self._ask(f"signal {value}", code)

    def _external_wait(self, value: int, timeout: float | None) -> int:
        return self._ask(f"certain {value} in {timeout}", value if value > self.before else 0)


@pytest.fixture
def stage(cuda: FakeDriver) -> Iterator[Stage]:
    made = Stage()
    yield made
    made.shared._timeline = None  # closed


def fails(at: str, error: BaseException) -> Callable[[str], None]:
    def hook(asked: str) -> None:
        if asked == at:
            raise error

    return hook


# ---- in order ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "X1")
def test_a_stream_signals_after_every_value_that_was_promised_before(stage: Stage) -> None:
    stage.shared.signal(5)
    stage.before = 5
    stage.shared.signal(6, stream=0x30)
    assert stage.done == [
        *("wait 0", "promise 5", "signal 5", "given 5"),
        *("wait 0", "promise 6", "wait 5", "signal 6", "given 6"),
    ]
    assert (stage.shared.statistics().waits, stage.shared.statistics().signals) == (0, 2)


@pytest.mark.rule("I3", "X4")
def test_a_stream_waits_only_for_what_is_certain_to_come_and_not_yet_reached(stage: Stage) -> None:
    stage.shared.wait(3, timeout=2)
    stage.before = 3
    stage.shared.wait(3)
    assert stage.done == ["wait 0", "certain 3 in 2", "wait 3", "wait 0", "certain 3 in None"]
    assert stage.shared.statistics().waits == 1
    stage.done.clear()
    for error in (TimeoutError(), AbandonedError()):
        stage.hook = fails("certain 4 in None", error)
        with pytest.raises(type(error)):
            stage.shared.wait(4)
    assert "wait 4" not in stage.done


# ---- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_a_captured_stream_is_refused_before_anything_is_promised_or_waited_for(stage: Stage) -> None:
    stage.codes["wait 0"] = CAPTURING
    for use in (stage.shared.signal, stage.shared.wait):
        with pytest.raises(InvalidCallError, match=r"captured into a graph.*wait for the fence and signal it before"):
            use(1)
    assert stage.done == ["wait 0", "wait 0"]


@pytest.mark.rule("I3")
@pytest.mark.parametrize("at", ["wait 2", "signal 7"])
def test_what_cuda_refuses_is_not_promised(stage: Stage, at: str) -> None:
    stage.before = 2
    stage.codes[at] = 1
    with pytest.raises(CUDAError, match=r"ExternalSemaphoresAsync of the stream 0x1: .*\(1\)$"):
        stage.shared.signal(7)
    assert stage.done[-1] == "given 0"
    assert "lost" not in stage.done
    assert stage.shared.statistics().signals == 0


@pytest.mark.rule("I3", "X1")
def test_what_the_fence_refuses_goes_to_no_stream(stage: Stage) -> None:
    stage.hook = fails("promise 1", ValueError("a signal must be above the queued value"))
    with pytest.raises(ValueError, match="above the queued value"):
        stage.shared.signal(1)
    assert stage.done == ["wait 0", "promise 1"], "another thread's promise is not taken back"
    with pytest.raises(TypeError, match="value must be an integer, not float"):
        stage.shared.signal(1.0)  # type: ignore[arg-type]


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("at", "reported"),
    [("promise 7", "given 0"), ("wait 2", "given 0"), ("signal 7", "given 7")],
)
def test_ctrl_c_leaves_the_fence_as_the_stream_has_it(stage: Stage, at: str, reported: str) -> None:
    stage.before = 2
    stage.hook = fails(at, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stage.shared.signal(7)
    assert stage.done[-1] == reported


@pytest.mark.rule("I3")
def test_ctrl_c_just_before_the_signal_promises_nothing(stage: Stage) -> None:
    stage.stops_before = True
    with pytest.raises(KeyboardInterrupt):
        stage.shared.signal(7)
    assert stage.done[-1] == "given 0"


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "X21")
@pytest.mark.parametrize("at", ["wait 0", "wait 2", "signal 7"])
def test_when_a_kernel_failed_who_waits_for_the_fence_is_told_at_once(stage: Stage, at: str) -> None:
    stage.before = 2
    stage.codes[at] = FAILED
    with pytest.raises(CUDAError, match=r"\(700\); CUDA cannot be used in this process any more"):
        stage.shared.signal(7)
    assert stage.done[-1] == "lost"
    assert "given 7" not in stage.done


@pytest.mark.rule("I3", "X21")
@pytest.mark.parametrize("at", ["wait 0", "wait 7"])
def test_a_wait_that_finds_cuda_dead_tells_so_too(stage: Stage, at: str) -> None:
    stage.codes[at] = FAILED
    with pytest.raises(CUDAError, match="cannot be used in this process"):
        stage.shared.wait(7)
    assert stage.done[-1] == "lost"


@pytest.mark.rule("I3", "I11")
def test_close_takes_the_semaphore_away_and_tells_when_cuda_died(stage: Stage, cuda: FakeDriver) -> None:
    with stage.shared as shared:
        assert not shared.is_closed
    assert shared.is_closed
    assert stage.done == ["detach"]
    assert cuda.freed() == ["cuDestroyExternalSemaphore"]
    shared.close()
    for use in (shared.signal, shared.wait):
        with pytest.raises(ClosedError, match="this CUDAFence is closed"):
            use(1)
    assert stage.done == ["detach"]
    dead = Stage()
    cuda.codes["cuCtxSynchronize"] = FAILED
    dead.shared.close()
    assert dead.done == ["detach", "lost"]


@pytest.mark.rule("I3", "I11")
def test_one_that_is_lost_warns_and_one_of_a_forked_parent_is_left_alone(cuda: FakeDriver) -> None:
    lost = Stage()
    lost.shared._pid += 1  # as in a forked child
    lost.shared.close()
    lost.shared.__del__()
    assert lost.done == []
    lost = Stage()
    with pytest.warns(ResourceWarning, match=r"unclosed <vkshare\.interop\.cuda\.CUDAFence of .*Fake GPU"):
        lost.shared.__del__()
    assert lost.done == ["detach"]


@pytest.mark.rule("I3", "X11")
def test_in_a_forked_child_cuda_is_not_asked(stage: Stage) -> None:
    device: Any = stage.shared._fence.device
    device._check.side_effect = InvalidCallError("inherited through fork")
    for use in (stage.shared.signal, stage.shared.wait):
        with pytest.raises(InvalidCallError, match="fork"):
            use(1)
    assert stage.done == []


@pytest.mark.rule("I8")
def test_pickling_one_names_what_to_send_instead(stage: Stage) -> None:
    with pytest.raises(TypeError, match=r"send fence\.export\(\).*cuda\.open_fence\(\) there"):
        pickle.dumps(stage.shared)
