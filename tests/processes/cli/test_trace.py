"""`vkshare trace`: what real processes left behind, whatever ended them, as one trace in Chrome's format."""

from __future__ import annotations

import os
import pty
import random
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.trace_runs import Trace, command, trace

from vkshare.cli import main, trace_files
from vkshare.cli import trace as cli
from vkshare.util import trace as trace_calls

pytestmark = [pytest.mark.program, pytest.mark.slow]

RECORD, HEADER, CHUNK = 64, 4096, 8192  # native/os/trace.h


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Where a test writes what is to be run."""
    return tmp_path / "program.py"


def write(program: Path, text: str) -> tuple[str, ...]:
    """The program, and how it is run."""
    program.write_text(textwrap.dedent(text))
    return "--", sys.executable, os.fspath(program)


# ---- what is in it ---------------------------------------------------------------------------------------------------


@pytest.mark.every_driver
def test_three_processes_that_hand_on_a_surface_are_on_one_clock(tmp_path: Path) -> None:
    frames, file = 12, tmp_path / "demo.json"
    demo = ("--", sys.executable, "-m", "vkshare", "demo", "shared", "--frames", str(frames), "--size", "256x144")
    done = trace(file, *demo)
    assert done.returncode == 0, done.stderr
    assert "every frame is as it must be" in done.stdout
    assert "0 dropped" in done.stderr
    found = Trace.read(file)
    names = found.names("process_name").values()
    assert len(names) == 3
    for party in ("renderer", "text", "checker"):
        assert any(party in name for name in names)
    flows = found.flows("hand-over")
    assert len(flows) >= 3 * frames - 1
    seconds = max(bar["ts"] + bar["dur"] for bar in found.bars()) / 1e6
    for points in flows:
        release, acquire = (found.bar_at(point) for point in points)
        assert release["name"] == acquire["name"].replace("acquire", "release")
        assert release["args"]["key"] == acquire["args"]["key"]
        assert release["ts"] < acquire["ts"] + acquire["dur"]
    between = [points for points in flows if points[0]["pid"] != points[-1]["pid"]]
    assert len(between) >= 3 * frames - 1
    assert all(0 < bar["dur"] / 1e6 <= seconds for bar in found.bars())
    ways = [[found.bar_at(point)["name"].split()[0] for point in points] for points in found.flows("submission")]
    assert len([way for way in ways if way == ["submit", "batch", "work"]]) >= frames
    assert all(way[-2:] == ["batch", "work"] for way in ways)  # a release may have work, too


PRODUCER = """
    import multiprocessing, os, signal
    import vkshare as vks

    def produce(pipe):  # in a child that is killed in the middle of it
        with vks.open(backend="cpu", name="producer") as device:
            sender, descriptor = vks.pipe(device, 16, 16, metadata_size=1)
            pipe.send(descriptor)
            for number in range(5):
                with sender.frame(bytes([number])):
                    pass
            os.kill(os.getpid(), signal.SIGKILL)

    def main():
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        child = context.Process(target=produce, args=(there,), name="doomed")
        child.start()
        with vks.open(backend="cpu", name="consumer") as device, vks.open_receiver(device, here.recv()) as receiver:
            for number in range(5):
                with receiver.frame() as frame:
                    assert frame.metadata[0] == number
            child.join()
            assert child.exitcode == -signal.SIGKILL

    if __name__ == "__main__":
        main()
"""


def test_what_a_killed_child_did_is_there_and_leads_to_what_the_other_took(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "queue.json"
    done = trace(file, *write(program, PRODUCER))
    assert done.returncode == 0, done.stderr
    found = Trace.read(file)
    names = {pid: name for (pid, _), name in found.names("process_name").items()}
    assert len(names) == 2
    producer = next(pid for pid, name in names.items() if name.startswith("doomed"))
    assert len([bar for bar in found.bars("enqueue") if bar["pid"] == producer]) == 5
    across = [points for points in found.flows("queue") if points[0]["pid"] == producer]
    assert len(across) == 5
    for points in across:
        enqueue, dequeue = (found.bar_at(point) for point in points)
        assert enqueue["args"]["queue"] == dequeue["args"]["queue"]
        assert enqueue["args"]["surface"] == dequeue["args"]["surface"]
        assert points[-1]["pid"] != producer
    queue = found.bar_at(across[0][0])["args"]["queue"]
    assert found.counts(f"ready in queue {queue[:6]}")[-1] == 0


HELD = """
    import os, time
    import vkshare as vks
    from vkshare.util import trace

    with vks.open(name="holder") as device:
        gate, done, never = device.create_fence(), device.create_fence(), device.create_fence()
        surface = device.create_surface(8, 8)
        surface.acquire()
        commands = device.record().clear(surface, (1, 0, 0, 1))
        device.submit(commands, waits=(gate, 1), signals=(done, 1))
        time.sleep(0.03)
        gate.signal(1)
        done.wait(1, 20)
        device.wait_idle(20)
        surface.release()
        device.submit(waits=(never, 1))
        time.sleep(0.03)
        trace.instant("the end")
        os._exit(0)
"""


def test_a_held_submission_goes_from_its_call_to_its_end(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "held.json"
    done = trace(file, *write(program, HELD))
    assert done.returncode == 0, done.stderr
    found = Trace.read(file)
    first, last = sorted(found.bars("held submission"), key=lambda bar: float(bar["ts"]))
    assert first["dur"] >= 30_000  # us, until gate.signal(1)
    (end,) = (row["ts"] for row in found.rows if row["name"] == "the end")
    assert last["dur"] >= 30_000
    assert last["ts"] + last["dur"] == pytest.approx(end, abs=1)  # it was still held
    assert found.counts("held by holder") == [1, 0, 1]
    way = next(points for points in found.flows("submission") if len(points) == 4)
    assert [found.bar_at(point)["name"].split()[0] for point in way] == ["submit", "held", "batch", "work"]
    assert last["args"]["about"] != first["args"]["about"] == found.bars("acquire")[0]["args"]["surface"]


MARKS = """
    import os, threading
    import vkshare
    from vkshare.util import trace

    trace.tell_names()
    def work():
        with trace.span("composite", 7, 3):
            with trace.span("inner"):
                pass
    thread = threading.Thread(target=work, name="compositor")
    thread.start(); thread.join()
    trace.name_process("the server")
    trace.instant("request", 1)
    trace.counter("clients", 8)
    trace.counter("clients", 7)
    trace.tick("HDMI-1", 42, 1)
    if os.fork() == 0:
        trace.instant("in the child")
        os._exit(0)
    os.wait()
"""


def test_marks_of_python_code_have_their_threads_and_processes_names(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "marks.json.gz"
    done = trace(file, *write(program, MARKS))
    assert done.returncode == 0, done.stderr
    found = Trace.read(file)
    (composite,), (inner,) = found.bars("composite"), found.bars("inner")
    assert composite["args"] == {"object": 7, "value": 3}
    assert composite["ts"] <= inner["ts"]
    assert found.names("thread_name")[composite["pid"], composite["tid"]] == "compositor"
    assert found.names("process_name")[composite["pid"], 0].startswith("the server: ")
    assert found.counts("clients") == [8, 7]
    instants = {row["name"]: row for row in found.rows if row["ph"] == "i"}
    assert instants["tick of HDMI-1"]["args"]["id"] == 42
    assert instants["request"]["pid"] == composite["pid"] != instants["in the child"]["pid"]


def test_what_had_no_room_is_counted(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "full.json"
    text = "from vkshare.util import trace\nfor n in range(1000): trace.instant('mark', n)\n"
    done = trace(file, "--size", "20K", *write(program, text))
    assert done.returncode == 0
    kept = len([row for row in Trace.read(file).rows if row["ph"] == "i"])
    assert 0 < kept < 1000
    assert f"{1000 - kept} dropped" in done.stderr
    assert "--size" in done.stderr


def test_where_nobody_traces_a_mark_is_nothing() -> None:
    assert not trace_calls.is_on
    assert trace_calls.span("a") is trace_calls.span("b")
    with trace_calls.span("a", 1, 2):
        trace_calls.instant("b")
    trace_calls._mark(1, "c")


TICKS = """
    import multiprocessing, threading
    from fractions import Fraction
    from vkshare import vsync

    def main():
        with vsync.Display("main", interval=Fraction(1, 100)) as display, vsync.VsyncDispatcher(display) as dispatcher:
            def take():
                with dispatcher.observe() as observer:
                    for _ in range(5):
                        observer.wait(10)
            threads = [threading.Thread(target=take, name=f"window {n}") for n in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    main()
"""


def test_a_tick_leads_to_each_thread_that_takes_it(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "ticks.json"
    done = trace(file, *write(program, TICKS))
    assert done.returncode == 0, done.stderr
    found = Trace.read(file)
    names = found.names("thread_name")
    waits = found.bars("wait for a tick")
    assert len(waits) == 10
    assert {names[bar["pid"], bar["tid"]] for bar in waits} == {"window 0", "window 1"}
    assert len(found.flows("tick")) == 10
    for points in found.flows("tick"):
        tick, wait = (found.bar_at(point) for point in points)
        assert tick["name"] == f"tick {tick['args']['id']}"
        assert tick["args"]["time_ns"] == wait["args"]["time_ns"]
    instants = [row for row in found.rows if row["ph"] == "i"]
    assert len(instants) >= 5
    assert all(row["args"]["late_us"] >= 0 for row in instants)


# ---- how it is drawn -------------------------------------------------------------------------------------------------


def record(kind: str, begin: int, end: int, *, device: int = 1, **fields: int) -> bytes:
    """As native/os/trace.h has it."""
    numbers = (fields.get(name, 0) for name in ("object", "value", "key", "order", "work"))
    return struct.pack("<HHI7Q", trace_calls.KINDS.index(kind), 0, device, begin, end, *numbers)


def leave(tmp_path: Path, pid: int, *records: bytes) -> None:
    """What a process with one thread leaves behind."""
    head = struct.pack("<QIIIIIIQQQQQ", 0x6563617274736B76, 1, HEADER, CHUNK, RECORD, pid, 0, 1, 1000, 9, 1, 0)
    chunk = struct.pack("<II16s", 0x6B6E6863, pid, b"thread").ljust(RECORD, b"\0") + b"".join(records)
    (tmp_path / f"{pid}-0.vkt").write_bytes(head.ljust(HEADER, b"\0") + chunk.ljust(CHUNK, b"\0"))


def drawn(tmp_path: Path, *records: bytes) -> Trace:
    """One process's records, merged with what others left."""
    leave(tmp_path, 7, *records)
    assert main(["trace", os.fspath(tmp_path / "t.json"), "--from", os.fspath(tmp_path)]) == 0
    return Trace.read(tmp_path / "t.json")


def test_operations_that_are_held_at_once_have_tracks_of_their_own(tmp_path: Path) -> None:
    holds = [(1000, 5000), (2000, 6000), (3000, 4000), (5000, 7000)]
    ends = (record("let go", begin, end, work=i + 1) for i, (begin, end) in enumerate(holds))
    found = drawn(tmp_path, *(record("hold", begin, begin, work=i + 1) for i, (begin, _) in enumerate(holds)), *ends)
    bars = sorted(found.bars("held"), key=lambda bar: float(bar["ts"]))
    tracks = [bar["tid"] for bar in bars]
    assert len(set(tracks[:3])) == 3
    assert tracks[3] == tracks[0]  # it is free again
    assert [bar["dur"] for bar in bars] == [4, 4, 1, 2]


def test_work_begins_when_the_work_before_it_has_ended(tmp_path: Path) -> None:
    found = drawn(
        tmp_path,
        record("run", 1000, 5000, order=1),
        record("run", 2000, 9000, order=2),
        record("run", 3000, 9000, order=3),  # seen in the same moment
        record("run", 10000, 11000, order=4),
    )
    work = {bar["name"]: (bar["ts"], bar["dur"]) for bar in found.bars("work")}
    assert work == {"work 1": (0, 4), "work 2": (4, 4), "work 3": (8, 0.001), "work 4": (9, 1)}


def test_a_wait_that_began_before_its_release_is_joined_with_it(tmp_path: Path) -> None:
    acquire, release = (
        record("acquire", 1000, 3500, object=5, order=3),
        record("release", 2000, 3000, object=5, order=3),
    )
    found = drawn(tmp_path, release, acquire, record("acquire", 4000, 5000, object=5, order=4))
    ((begin, end),) = found.flows("hand-over")
    assert (begin["ts"], end["ts"]) == (1.0, 2.499)


def test_a_tick_goes_on_to_the_displays_and_observers_of_other_processes(tmp_path: Path) -> None:
    reported, taken = (record(kind, at, at + 100, value=900) for kind, at in (("tick", 3000), ("tick taken", 3200)))
    leave(tmp_path, 8, reported, taken)
    leave(tmp_path, 9, record("tick taken", 2000, 4000, value=900))
    found = drawn(tmp_path, record("tick", 1000, 1200, value=900), record("tick", 5000, 5100, value=4900))
    ways = {(points[0]["pid"], points[-1]["pid"], points[-1]["ts"]) for points in found.flows("tick")}
    assert ways == {(7, 8, 2.0), (8, 8, 2.299), (7, 9, 2.999)}


# ---- the command that is run -----------------------------------------------------------------------------------------


def test_the_commands_exit_status_is_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    assert trace(file, "--", "sh", "-c", "exit 7").returncode == 7
    assert trace(file, "--", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert trace(file, "--", "/nonexistent/command").returncode == 127
    assert trace(file, "--", os.fspath(tmp_path)).returncode == 126
    assert trace(file).returncode == 2
    assert trace(file, "--from", "/nonexistent").returncode == 2
    assert trace(file, "--size", "12", "--", "true").returncode == 2


def test_it_says_so_when_nothing_was_traced(tmp_path: Path) -> None:
    file = tmp_path / "nothing.json"
    done = trace(file, "--", "echo", "hello")
    assert done.stdout == "hello\n"
    assert "nothing was traced" in done.stderr
    assert Trace.read(file).rows == []


SLEEPER = """
    import signal, sys, time
    from vkshare.util import trace
    got = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: got.append(number))
    trace.instant("ready")
    print("ready", flush=True)
    end = time.monotonic() + 30
    while not got and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # for a second one
    print("got", *got, flush=True)
    sys.exit(5)
"""


def test_a_signal_that_somebody_sends_goes_on_to_the_command(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "signalled.json"
    argv = command(file, *write(program, SLEEPER))
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert out == f"got {signal.SIGTERM:d}\n"
    assert process.returncode == 5
    assert any(row["name"] == "ready" for row in Trace.read(file).rows)


def test_ctrl_c_reaches_the_command_once(tmp_path: Path, program: Path) -> None:
    """The terminal sends it to both."""
    argv = command(tmp_path / "t.json", *write(program, SLEEPER))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    reported, end = b"", time.monotonic() + 60
    with os.fdopen(terminal, "rb+", buffering=0) as screen:
        while time.monotonic() < end:
            try:
                reported += screen.read(1024)
            except OSError:  # EIO: the last process let go of it
                break
            if b"ready" in reported and b"^C" not in reported:
                screen.write(b"\x03")
                reported += b"^C"
        _, status = os.waitpid(pid, 0)
    assert b"got %d\r\n" % signal.SIGINT in reported
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.parametrize(("sent_by", "passed_on"), [("a process", True), ("the kernel", False)])
def test_only_what_a_process_sends_is_passed_on(sent_by: str, passed_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that come at once would be one to the command, so how often it got one proves little."""
    reported = iter([SimpleNamespace(si_signo=signal.SIGINT, si_code=0 if sent_by == "a process" else 128)])
    ends, sent = iter([None, 3]), list[int]()
    process = SimpleNamespace(poll=lambda: next(ends), send_signal=sent.append)
    monkeypatch.setattr(signal, "sigwaitinfo", lambda _: next(reported))
    assert cli._wait(process) == 3  # type: ignore[arg-type]
    assert sent == ([signal.SIGINT] if passed_on else [])


def test_a_file_that_cannot_be_written_is_known_before_the_command_runs(tmp_path: Path) -> None:
    done = trace(tmp_path / "no" / "such" / "t.json", "--", "touch", os.fspath(tmp_path / "ran"))
    assert done.returncode == 1
    assert f"No such file or directory: '{tmp_path / 'no' / 'such' / 't.json'}'" in done.stderr
    assert not (tmp_path / "ran").exists()


# ---- files that are not what they should be --------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path, program: Path) -> Path:
    """A directory with what one process left: 300 marks."""
    directory = tmp_path / "records"
    directory.mkdir()
    write(program, "from vkshare.util import trace\nfor n in range(300): trace.instant('mark', n, n)\n")
    subprocess.run(
        [sys.executable, os.fspath(program)], check=True, env={**os.environ, "VKSHARE_TRACE": str(directory)}
    )
    return directory


def merged(directory: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """How many marks came through, and what was said."""
    assert main(["trace", os.fspath(file), "--from", os.fspath(directory)]) == 0
    rows = Trace.read(file, tidy=False).rows
    return len([row for row in rows if row["ph"] == "i"]), capsys.readouterr().err


def test_files_that_somebody_kept_can_be_merged_later(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, said = merged(recorded, tmp_path / "t.json", capsys)
    assert count == 300
    assert "0 dropped" in said
    assert list(recorded.glob("*.vkt"))  # they are the caller's


def test_half_a_record_is_skipped_and_counted(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = recorded.glob("*.vkt")
    content = bytearray(file.read_bytes())
    last = HEADER + 2 * CHUNK + RECORD * (300 - 2 * (CHUNK // RECORD - 1))  # of the third chunk
    assert int.from_bytes(content[last : last + 2], "little") != 0
    content[last : last + 2] = bytes(2)  # the kind is stored last
    file.write_bytes(content)
    count, said = merged(recorded, tmp_path / "t.json", capsys)
    assert count == 299
    assert "1 half-written" in said


def test_a_file_that_was_cut_off_gives_what_is_left(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = recorded.glob("*.vkt")
    file.write_bytes(file.read_bytes()[: HEADER + CHUNK + 100])
    count, said = merged(recorded, tmp_path / "t.json", capsys)
    assert count == CHUNK // RECORD - 1
    assert "1 damaged" in said


def test_files_that_are_no_traces_are_left_out_by_name(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = recorded.glob("*.vkt")
    content = bytearray(file.read_bytes())
    content[8] = 99  # the version
    (recorded / "1-0.vkt").write_bytes(b"")
    (recorded / "1-1.vkt").write_bytes(bytes(3 * HEADER))
    (recorded / "1-2.vkt").write_bytes(content)
    count, said = merged(recorded, tmp_path / "t.json", capsys)
    assert count == 300
    for name, why in (("1-0", "killed as it began"), ("1-1", "not a trace"), ("1-2", "another version")):
        assert any(name in line and why in line for line in said.splitlines())


def test_garbage_in_a_file_harms_nobody(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = recorded.glob("*.vkt")
    whole = file.read_bytes()
    chance = random.Random(5)
    for _ in range(60):
        content = bytearray(whole[: chance.randrange(HEADER, len(whole) + 1)] if chance.random() < 0.3 else whole)
        for _ in range(chance.choice((1, 10, 1000))):
            at = chance.randrange(32, len(content))
            content[at] = chance.randrange(256)
        file.write_bytes(content)
        merged(recorded, tmp_path / "t.json", capsys)


def test_times_that_cannot_be_are_damaged_records(recorded: Path) -> None:
    (file,) = recorded.glob("*.vkt")
    content = bytearray(file.read_bytes())
    first = HEADER + RECORD
    for record, (begin, end) in enumerate(((0, 5), (9, 8), (1, 2**64 - 1))):
        at = first + record * RECORD + 8
        content[at : at + 16] = begin.to_bytes(8, "little") + end.to_bytes(8, "little")
    content[first + 3 * RECORD] = 250  # a kind that there is not
    file.write_bytes(content)
    (found,), bad = trace_files.read_all(recorded)
    assert not bad
    assert found.damaged == 4
    assert found.records.size == 296


def test_two_processes_that_had_one_pid_have_tracks_of_their_own(recorded: Path, tmp_path: Path) -> None:
    (file,) = recorded.glob("*.vkt")
    content = bytearray(file.read_bytes())
    content[32] ^= 1  # the identity
    (recorded / "1-0.vkt").write_bytes(content)
    assert main(["trace", os.fspath(tmp_path / "t.json"), "--from", os.fspath(recorded)]) == 0
    assert len(Trace.read(tmp_path / "t.json", tidy=False).names("process_name")) == 2
