"""`vkshare trace` of a render server's requests and of hardware's ticks: who told whom, over threads and processes."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest
from support.trace_runs import Row, Trace, trace

from vkshare.server import trace_points
from vkshare.server.messages import Op
from vkshare.util import trace as trace_calls

pytestmark = [pytest.mark.program, pytest.mark.slow]

SERVERS = {"answer", "dispatch", "run", "collect", "finish", "reply", "fail"}  # steps that its server takes
SERVER = """
    import multiprocessing, tempfile, threading
    import vkshare as vks

    def ask(path):
        with vks.server.Client(path, "requester") as client:
            surface = client.create_surface(16, 16)
            client.submit(client.record().clear(surface, (1, 0, 0, 1)), acquire={surface: 0}, release={surface: 0})
            client.sync()
            client.ping()
            client.statistics()
            client.submit(client.record().clear(surface, (1, 0, 0, 1)))
            try:
                client.sync()
            except vks.NotOwnerError:
                pass
            try:
                client.create_surface(16, 16, "no format")
            except ValueError:
                pass

    def main():
        with tempfile.TemporaryDirectory() as folder, vks.open(backend="cpu", name="server") as device:
            with vks.server.RenderServer(device, f"{folder}/server") as server:
                child = multiprocessing.get_context("spawn").Process(target=ask, args=(server.path,), name="requester")
                child.start()
                def end():
                    child.join()
                    server.shutdown()
                threading.Thread(target=end).start()
                server.serve_forever()
            assert child.exitcode == 0

    if __name__ == "__main__":
        main()
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """One client in another process, and all it asked."""
    folder = tmp_path_factory.mktemp("served")
    return traced(folder, SERVER)


def traced(folder: Path, text: str) -> Trace:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    done = trace(folder / "trace.json", "--", sys.executable, os.fspath(program))
    assert done.returncode == 0, done.stderr
    return Trace.read(folder / "trace.json")


def steps(found: Trace, name: str) -> list[list[tuple[str, str]]]:
    """Of each request whose first step has that name: the steps, and on which threads."""
    threads = found.names("thread_name")
    flows = [[found.bar_at(point) for point in points] for points in found.flows("request")]
    return [
        [(bar["name"], threads[bar["pid"], bar["tid"]]) for bar in bars] for bars in flows if bars[0]["name"] == name
    ]


def test_what_a_client_waits_for_goes_over_the_loop_and_its_worker_back_to_it(served: Trace) -> None:
    made = [
        ("call create surface", "main"),
        ("dispatch create surface", "main"),
        ("run create surface", "vks-client-1"),
        ("collect create surface", "main"),
        ("reply create surface", "main"),
        ("call create surface", "main"),
    ]
    refused = [*made[:4], ("fail create surface", "main"), made[-1]]
    assert sorted(steps(served, "call create surface")) == sorted([made, refused])


def test_what_a_client_does_not_wait_for_ends_where_the_loop_hears_that_it_was_done(served: Trace) -> None:
    first, refused = sorted(steps(served, "send submit"), key=len)
    assert first == [
        ("send submit", "main"),
        ("dispatch submit", "main"),
        ("run submit", "vks-client-1"),
        ("collect submit", "main"),
    ]
    assert refused == [*first, ("fail submit", "main")]


def test_what_the_loop_answers_by_itself_has_no_worker(served: Trace) -> None:
    asked = [(f"{step} statistics", "main") for step in ("call", "answer", "reply", "call")]
    assert steps(served, "call statistics") == [asked]
    no_ops = steps(served, "call no-op")  # the second is close()'s
    assert [("call no-op", "main"), ("reply no-op", "main"), ("call no-op", "main")] in no_ops


def test_a_request_is_of_the_process_that_asked_and_of_the_one_that_answered(served: Trace) -> None:
    (client,) = (pid for (pid, _), name in served.names("process_name").items() if name.startswith("requester"))
    for points in served.flows("request"):
        bars: list[Row] = [served.bar_at(point) for point in points]
        assert len({(bar["args"]["server"], bar["args"]["client"], bar["args"]["sequence"]) for bar in bars}) == 1
        assert all(bar["pid"] == bar["args"]["server"] for bar in bars if bar["name"].split()[0] in SERVERS)
        if bars[0]["name"] != "answer hello":  # who says hello does not know his number yet
            assert bars[0]["pid"] == client
            assert bars[1]["name"].split()[0] in SERVERS


def test_the_loops_turns_are_seen(served: Trace) -> None:
    turns = served.bars("awake")
    for step in served.bars("dispatch "):
        assert any(turn["ts"] <= step["ts"] < turn["ts"] + turn["dur"] for turn in turns)


def test_where_nobody_traces_a_step_is_nothing() -> None:
    assert trace_points.step("run", Op.SUBMIT, 1, 2) is trace_calls.NOTHING
    assert trace_calls.request("run", 1, 2) is trace_calls.span("a")
    assert trace_calls.now() == 0


HARDWARE = """
    import time
    from vkshare import vsync

    def main():
        with vsync.Display("main", interval=0.02) as display, vsync.VsyncDispatcher(display) as window:
            source = display._core.listen("x11-present")
            with window.observe() as observer:
                ticks, end = 0, time.monotonic() + 60
                while ticks < 3 and time.monotonic() < end:
                    blank = time.monotonic_ns()
                    display._core.report(source, blank)
                    try:
                        tick = observer.wait(0.02)
                    except TimeoutError:
                        continue
                    ticks += tick.kind == "x11-present"
                    time.sleep(max(0, blank / 1e9 + 0.02 - time.monotonic()))
                assert ticks == 3

    main()
"""


def test_a_tick_comes_from_the_hardware_that_a_source_heard(tmp_path: Path) -> None:
    found = traced(tmp_path, HARDWARE)
    ways = [[found.bar_at(point) for point in points] for points in found.flows("tick")]
    heard = [way for way in ways if way[0]["name"] == "blank reported to display 1"]
    assert len(heard) >= 3
    for reported, tick in heard:
        assert tick["name"].startswith("tick ")
        assert reported["args"]["time_ns"] == tick["args"]["time_ns"]
        assert reported["tid"] != tick["tid"]


COMPOSITES = """
    import vkshare as vks

    with vks.open(backend="cpu", name="client") as client, vks.open(backend="cpu", name="screen") as device:
        sender, descriptor = vks.pipe(client, 8, 8)
        with vks.compositor.Compositor(device, vks.Headless(32, 32), name="left") as compositor:
            window = compositor.open_window(descriptor, title="it")
            while window.statistics().shown < 3:
                with sender.frame(timeout=20) as frame:
                    client.submit(client.record().clear(frame.surface, (1, 0, 0, 1)))
        sender.close()
        descriptor.close()
"""


def test_composites_are_bars_on_the_compositors_thread_with_their_ticks(tmp_path: Path) -> None:
    found = traced(tmp_path, COMPOSITES)
    composites = [row for row in found.rows if row["name"] == "composite"]
    assert len(composites) >= 3
    threads = found.names("thread_name")
    assert {threads[row["pid"], row["tid"]] for row in composites} == {"compositor left"}
    ticks = {row["args"]["id"] for row in found.rows if row["name"].startswith("tick") and "id" in row.get("args", {})}
    assert {row["args"]["object"] for row in composites} <= ticks
    assert {row["args"]["value"] for row in composites} <= {0, 1}, "windows"
    presents = [row for row in found.rows if row["name"].startswith("present")]
    for row in composites:
        inside = [each for each in presents if row["ts"] <= each["ts"] <= row["ts"] + row["dur"]]
        assert len(inside) == 1, "each is presented within it"
