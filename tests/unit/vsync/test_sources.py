"""Vsync sources: their runs, their ticks and their end, on a stub."""

from __future__ import annotations

import os
import pickle
import threading
import time

import pytest
from support.display_servers import wait_for
from support.fd_counts import open_fds
from support.private_displays import run_child
from support.vsync_sources import Listener, StubSource, listening

from vkshare.errors import ClosedError, InvalidCallError, SurfaceLostError

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("V22")]


def test_each_tick_is_delivered_once_in_order_on_a_thread_of_the_source() -> None:
    with StubSource() as source:
        listener = Listener()
        source.start(listener.heard)
        for time_ns in range(1000, 1100):
            source.tick(time_ns)
        assert listener.wait(100) == list(range(1000, 1100))
        assert len(listener.threads) == 1
        assert threading.current_thread() not in listener.threads
        assert source.statistics().ticks == 100


@pytest.mark.rule("V14")
def test_a_silence_is_no_end() -> None:
    with StubSource() as source:
        listener = Listener()
        source.start(listener.heard, listener.lost)
        source.tick(1)
        listener.wait(1)
        time.sleep(0.4)
        assert source.is_running
        assert not source.is_lost
        source.tick(2)
        assert listener.wait(2) == [1, 2]


@pytest.mark.rule("V13")
def test_no_tick_is_delivered_after_stop_has_returned() -> None:
    with StubSource() as source:
        inside = threading.Event()

        def heard(time_ns: int) -> None:
            inside.set()
            time.sleep(0.002)
            inside.clear()

        for _ in range(30):
            listener = Listener(heard)
            source.start(listener.heard)
            for time_ns in range(5):
                source.tick(time_ns)
            wait_for(lambda: len(listener.times) > 1, "two ticks")  # noqa: B023
            source.stop()
            assert not inside.is_set()
            reported = len(listener.times)
            time.sleep(0.004)
            assert len(listener.times) == reported


@pytest.mark.rule("V6")
def test_nothing_is_left_that_could_wake_up_after_a_hundred_runs() -> None:
    with StubSource() as source:
        listener = Listener()
        source.start(listener.heard)
        source.stop()
        time.sleep(0.1)
        fds, threads = open_fds(), len(os.listdir("/proc/self/task"))
        for run in range(100):
            source.start(listener.heard)
            source.tick(run)
            listener.wait(run + 1)
            source.stop()
            source.stop()
        assert listening() == []
        # Python lets a thread be joined a moment before the system's ends.
        wait_for(lambda: len(os.listdir("/proc/self/task")) == threads, "no thread is left")
        assert open_fds() == fds
        assert source.statistics().runs == 101
    assert source.released == 1


def test_stop_within_a_tick_does_not_wait_for_itself() -> None:
    with StubSource() as source:
        listener = Listener(lambda _: source.stop())
        source.start(listener.heard)
        for time_ns in range(10):
            source.tick(time_ns)
        listener.wait(1)
        wait_for(lambda: listening() == [], "the thread has ended")
        assert (listener.times, listener.errors) == ([0], [])
        assert not source.is_running


def test_a_source_can_be_restarted_within_its_own_tick() -> None:
    with StubSource() as source:
        second = Listener()

        def restart(_: int) -> None:
            source.stop()
            source.start(second.heard)

        first = Listener(restart)
        source.start(first.heard)
        source.tick(1)
        source.tick(2)
        assert second.wait(1) == [2]
        assert (first.times, first.errors) == ([1], [])
        assert first.threads != second.threads


def test_a_run_begins_when_the_tick_in_which_the_one_before_was_stopped_is_over() -> None:
    with StubSource() as source:
        goes_on, second = threading.Event(), Listener()

        def restart(_: int) -> None:
            source.stop()
            source.start(second.heard)
            goes_on.wait(10)

        source.start(Listener(restart).heard)
        source.tick(1)
        source.tick(2)
        wait_for(lambda: source.statistics().runs == 2, "it is restarted")
        time.sleep(0.05)
        assert source.begun == 1
        assert second.times == []
        goes_on.set()
        assert second.wait(1) == [2]
        assert source.begun == 2


def test_a_run_may_be_begun_and_ended_within_a_tick_of_the_one_before() -> None:
    with StubSource() as source:
        second = Listener()

        def twice(_: int) -> None:
            source.stop()
            source.start(second.heard)
            source.stop()

        first = Listener(twice)
        source.start(first.heard)
        source.tick(1)
        source.tick(2)
        first.wait(1)
        wait_for(lambda: listening() == [], "the threads have ended")
        assert (first.times, second.times, first.errors) == ([1], [], [])


def test_close_within_a_tick_ends_it() -> None:
    source = StubSource()
    listener = Listener(lambda _: source.close())
    source.tick(1)
    source.tick(2)
    source.start(listener.heard)
    listener.wait(1)
    wait_for(lambda: listening() == [], "the thread has ended")
    assert (listener.times, listener.errors) == ([1], [])
    assert source.is_closed
    assert source.released == 1


def test_many_threads_may_start_and_stop_it_at_once() -> None:
    with StubSource() as source:
        refused = []

        def work() -> None:
            for _ in range(50):
                try:
                    source.start(lambda _: None)
                except InvalidCallError as error:
                    refused.append(error)
                source.stop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert listening() == []
        assert source.statistics().runs + len(refused) == 200


def test_a_lost_source_reports_the_loss_once_and_refuses_to_start() -> None:
    with StubSource() as source:
        listener = Listener()
        source.start(listener.heard, listener.lost)
        source.tick(1)
        source.fail(SurfaceLostError("the display went away"))
        source.tick(2)
        assert str(listener.wait_lost()) == "the display went away"
        wait_for(lambda: listening() == [], "the thread has ended")
        assert (listener.times, len(listener.losses)) == ([1], 1)
        assert source.is_lost
        assert not source.is_running
        assert "lost" in repr(source)
        for _ in range(2):
            with pytest.raises(SurfaceLostError, match="went away"):
                source.start(listener.heard, listener.lost)
        source.stop()
        assert len(listener.losses) == 1


def test_a_source_may_be_closed_within_its_loss_callback() -> None:
    source = StubSource()
    source.start(lambda _: None, lambda _: source.close())
    source.fail(SurfaceLostError("gone"))
    wait_for(lambda: source.is_closed and not listening(), "it is closed")
    assert source.released == 1


def test_a_tick_callback_that_raises_does_not_end_the_source(caplog: pytest.LogCaptureFixture) -> None:
    with StubSource() as source:

        def heard(time_ns: int) -> None:
            if time_ns == 1:
                raise RuntimeError("a listener's own error")

        listener = Listener(heard)
        source.start(listener.heard, listener.lost)
        source.tick(1)
        source.tick(2)
        assert listener.wait(2) == [1, 2]
        assert listener.losses == []
    assert "a listener's own error" in caplog.text


def test_a_source_is_started_once_and_not_after_its_end() -> None:
    source = StubSource()
    with pytest.raises(TypeError, match="functions of one argument"):
        source.start(None)  # type: ignore[arg-type]
    source.start(lambda _: None)
    with pytest.raises(InvalidCallError, match=r"stop\(\) it first"):
        source.start(lambda _: None)
    source.close()
    source.close()
    assert source.released == 1
    with pytest.raises(ClosedError):
        source.start(lambda _: None)


def test_a_source_is_not_started_while_it_is_being_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = StubSource()
    source.start(lambda _: None)
    stop = source.stop

    def stop_and_start() -> None:
        stop()
        with pytest.raises(ClosedError):
            source.start(lambda _: None)

    monkeypatch.setattr(source, "stop", stop_and_start)
    source.close()
    assert source.released == 1
    assert not source.is_running


def test_a_start_without_a_thread_leaves_a_source_that_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with StubSource() as source:
        fds, listener = open_fds(), Listener()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                source.start(listener.heard)
        assert not source.is_running
        assert open_fds() == fds
        source.stop()
        source.start(listener.heard)
        source.tick(1)
        assert listener.wait(1) == [1]


def test_its_repr_shows_its_state() -> None:
    source = StubSource()
    assert repr(source) == "<vkshare.vsync.StubSource of a test, stopped>"
    source.start(lambda _: None)
    assert repr(source) == "<vkshare.vsync.StubSource of a test, running>"
    source.close()
    assert repr(source) == "<vkshare.vsync.StubSource of a test, closed>"


def test_a_source_is_not_pickled_and_warns_when_it_was_not_closed() -> None:
    source = StubSource()
    with pytest.raises(TypeError, match="VsyncBridge"):
        pickle.dumps(source)
    kept = [source]
    del source
    with pytest.warns(ResourceWarning, match="unclosed <vkshare.vsync.StubSource"):
        kept.clear()


def test_a_forked_child_leaves_its_parents_source_alone() -> None:
    run_child(
        """
        import os
        from support.vsync_sources import Listener, StubSource
        from vkshare.errors import InvalidCallError

        source, listener = StubSource(), Listener()
        source.start(listener.heard)
        child = os.fork()
        if child == 0:
            try:
                source.start(listener.heard)
            except InvalidCallError:
                source.stop()
                source.close()
                os._exit(source.released)
            os._exit(100)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        source.tick(1)
        listener.wait(1)
        source.close()
        """,
        dict(os.environ) | {"PYTHONPATH": "tests"},
    )


def test_a_program_ends_though_it_forgot_a_running_source() -> None:
    run_child(
        """
        import warnings
        from support.vsync_sources import Listener, StubSource

        warnings.simplefilter("ignore", ResourceWarning)
        source, listener = StubSource(), Listener()
        source.start(listener.heard)
        source.tick(1)
        listener.wait(1)
        """,
        dict(os.environ) | {"PYTHONPATH": "tests"},
    )
