"""The command line: info, doctor and ps."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.peer_processes import Peer
from support.queue_ends import Loop
from support.shared_handles import opened, wait_until

import vkshare as vks
from vkshare.cli import doctor, main, ps, table
from vkshare.util import pages

pytest_plugins = ["support.peer_processes"]

COUNT, WRITTEN, TAKEN = 72, 128, 192  # where these are in a queue's page (native/shm/queue_page.h)

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.program,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vkshare", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.every_driver
def test_info_names_every_adapter_and_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    reported = capsys.readouterr().out
    assert vks.__version__ in reported
    for adapter in vks.adapters():
        assert adapter.name in reported
        assert adapter.driver in reported
    assert "rgba8unorm-srgb" in reported


def test_info_as_json_has_the_capabilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    found = vks.adapters()
    assert [a["name"] for a in reported["adapters"]] == [a.name for a in found]
    cpu = reported["adapters"][-1]
    assert cpu["capabilities"]["surface_memory"] == ["memfd"]
    assert cpu["capabilities"]["max_dimension"] == found[-1].capabilities.max_dimension
    assert isinstance(reported["skipped"], list)


def test_doctor_finds_this_machine_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    reported = capsys.readouterr().out
    for what in ("pidfd_open", "memfd seals", "FUTURE_WRITE", "futex_waitv", "fd limit", "seccomp", "/proc", "cores"):
        assert what in reported
    assert "vkshare works here: 0 missing" in reported
    assert main(["doctor", "--json"]) == 0
    assert {f["state"] for f in json.loads(capsys.readouterr().out)} <= {"ok", "odd"}


def test_doctor_lists_optional_packages_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"aiohttp", "PIL"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in there else None)
    found = {each.name: each for each in doctor.optional_packages()}
    assert found["vkshare[view]"].found == "av (PyAV): not installed"
    assert found["vkshare[view]"].advice.endswith("need it: pip install 'vkshare[view]'")
    assert found["vkshare[notebook]"].found == "anywidget: not installed"
    assert "zstandard" in found["vkshare[remote]"].found
    there |= {"av"}
    assert {each.state for each in doctor.optional_packages()} == {"ok", "odd"}


def test_doctor_fails_and_advises_when_something_needed_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert main(["doctor"]) == 1
    reported = capsys.readouterr().out
    assert "missing  pidfd_open" in reported
    assert "seccomp profile that allows pidfd_open" in reported
    assert "does not work here as it is: 1 missing" in reported


def test_an_examination_that_fails_is_a_finding_of_its_own() -> None:
    def broken() -> list[doctor.Finding]:
        raise RuntimeError("surprise")

    assert [(f.state, f.name) for f in doctor.examine((broken,))] == [("missing", "broken")]


def test_doctor_tells_a_low_fd_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 4096))
    assert [(f.state, "ulimit -n" in f.advice) for f in doctor.fd_limit()] == [("odd", True)]


def test_a_wrong_command_is_a_usage_error_and_an_unhappy_one_says_why() -> None:
    result = run("nonsense")
    assert result.returncode == 2
    assert "nonsense" in result.stderr
    assert run("--version").stdout.strip() == f"vkshare {vks.__version__}"
    help_text = run("--help").stdout
    assert all(name in help_text for name in ("info", "doctor", "ps"))


def test_a_package_without_its_c_core_says_how_to_build_it_and_nothing_else() -> None:
    code = "import sys; sys.modules['vkshare._native'] = None; from vkshare.cli import main; sys.exit(main(['info']))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith("vkshare: vkshare was imported from")
    assert "build the core" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_output_into_a_pipe_that_closes_early_is_no_traceback() -> None:
    result = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m vkshare info --json | head -c 1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in result.stderr


# ---- ps ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def parties(vks_open: Callable[..., vks.Device]) -> Iterator[tuple[vks.Surface, vks.Surface, vks.Fence]]:
    """An owned 321x123 surface, a handle of another device that waits for key 77, and an exported fence at 5."""
    painter, reader = vks_open(name="painter"), vks_open(name="reader")
    mine = painter.create_surface(321, 123)
    fence = painter.create_fence(5)
    with mine.export() as descriptor, fence.export() as fence_descriptor:
        theirs = reader.open_surface(descriptor)
        follower = reader.open_fence(fence_descriptor)
    mine.acquire()
    waiter = threading.Thread(target=theirs.acquire, args=(77, 30))
    waiter.start()
    deadline = time.monotonic() + 5
    while not mine.mutex.statistics().waiters and time.monotonic() < deadline:
        time.sleep(0.001)
    yield mine, theirs, fence
    follower.close()
    mine.release(77)
    waiter.join()
    theirs.release(0)


@pytest.mark.rule("K33")
def test_ps_in_another_process_names_owner_waiter_key_and_since(
    parties: tuple[vks.Surface, vks.Surface, vks.Fence],
) -> None:
    mine, _, _ = parties
    result = run("ps", "--json")
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    found = [s for s in reported["surfaces"] if (s["width"], s["height"]) == (321, 123)]
    assert len(found) == 1
    surface = found[0]
    assert surface["state"] == "owned"
    assert surface["format"] == "rgba8unorm"
    assert (surface["owner"]["pid"], surface["owner"]["device"]) == (os.getpid(), "painter")
    assert [(h["pid"], h["device"]) for h in surface["handles"]].count((os.getpid(), "reader")) == 1
    (waiter,) = surface["waiters"]
    assert (waiter["pid"], waiter["device"], waiter["key"]) == (os.getpid(), "reader", 77)
    assert 0 < waiter["seconds"] < 60
    assert os.getpid() in surface["processes"]
    fences = [f for f in reported["fences"] if f["signaller"]["pid"] == os.getpid() and f["completed"] == 5]
    assert fences
    assert fences[0]["status"] == "ok"
    assert mine.is_owned
    assert mine.mutex.statistics().waiters


@pytest.mark.rule("K33")
def test_ps_as_text_has_a_table_of_surfaces_waiters_and_fences(
    parties: tuple[vks.Surface, vks.Surface, vks.Fence], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ps"]) == 0
    reported = capsys.readouterr().out
    assert "321x123" in reported
    assert "'painter'" in reported
    assert "'reader'" in reported
    assert "77" in reported
    assert "SIGNALLER" in reported


@pytest.mark.rule("Y2", "K33")
def test_ps_shows_the_colour_of_surfaces_queues_and_publications(
    device: vks.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    if "nv12" not in device.capabilities.formats:
        pytest.skip("no nv12")
    color = vks.Color("bt2020", "pq", "bt2020", "limited", "top-left")
    words = {"primaries": "bt2020", "transfer": "pq", "matrix": "bt2020", "range": "limited", "siting": "top-left"}
    with (
        device.create_surface(322, 124, "nv12", color=color) as video,
        device.create_surface(323, 125) as plain,
        device.create_buffer(4097) as buffer,
        video.export(),
        plain.export(),
        buffer.export(),
        vks.SurfaceQueue(device, 324, 126, "nv12", 2, color=color),
        video.publish("coloured"),
    ):
        reported = ps.collect()
        assert main(["ps"]) == 0
        text = capsys.readouterr().out
    colors = {(s["width"], s["height"]): s["color"] for s in reported["surfaces"]}
    assert colors[322, 124] == colors[324, 126] == words
    assert colors[323, 125] == dataclasses.asdict(vks.Color())
    assert [each["color"] for each in reported["surfaces"] if each.get("nbytes") == 4097] == [None]
    assert [each["color"] for each in reported["queues"] if each["width"] == 324] == [words]
    assert [each["color"] for each in reported["published"] if each["name"] == "coloured"] == [words]
    lines = [" ".join(line.split()[1:]) for line in text.splitlines()]
    for size, form in (("322x124", "nv12"), ("323x125", "rgba8unorm")):
        meaning = str(color if form == "nv12" else vks.Color())
        assert any(line.startswith(f"{size} {form} {meaning} ") for line in lines)
    assert any(line.startswith(f"surface 322x124 nv12 {color} ") for line in lines)


@pytest.mark.rule("Y2", "K33")
def test_ps_shows_no_colour_where_a_page_has_none(device: vks.Device) -> None:
    with (
        device.create_surface(13, 9) as forged,
        forged.export() as descriptor,
        mmap.mmap(descriptor._fds[1], 4096) as page,
    ):
        for numbers in (bytes(5), b"\x63" * 5):
            page[56:61] = numbers  # of the header
            (found,) = [each for each in ps.collect()["surfaces"] if (each["width"], each["height"]) == (13, 9)]
            assert found["color"] is None


@pytest.mark.rule("K33")
def test_a_page_whose_lock_was_written_over_is_listed_as_invalid_beside_the_others(
    parties: tuple[vks.Surface, vks.Surface, vks.Fence], device: vks.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = device.create_surface(11, 7)
    with forged.export() as descriptor, mmap.mmap(descriptor._fds[1], 4096) as page:
        page[64] |= 3  # the lock's word: its lowest two bits are the state
        assert main(["ps", "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        page[64] &= ~3
    states = {(s["width"], s["height"]): s["state"] for s in reported["surfaces"]}
    assert states[11, 7] == "invalid"
    assert states[321, 123] == "owned"
    assert not [page for page in reported["unreadable"] if os.getpid() in page["processes"]]  # other tests forge, too


@pytest.mark.rule("K33")
def test_a_page_that_cannot_be_told_hides_no_other(
    parties: tuple[vks.Surface, vks.Surface, vks.Fence],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    look = pages.inspect_path

    def fail(path: str) -> dict[str, Any] | None:
        page = look(path)
        if page is not None and page["kind"] == 2:
            page["state"] = 99
        return page

    monkeypatch.setattr(pages, "inspect_path", fail)
    reported = ps.collect()
    assert reported["fences"]
    assert any("IndexError" in page["why"] and os.getpid() in page["processes"] for page in reported["unreadable"])
    assert main(["ps"]) == 0
    assert "UNREADABLE PAGE" in capsys.readouterr().out


def test_ps_says_so_when_nothing_is_shared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ps, "_own_processes", lambda: iter(()))
    assert main(["ps"]) == 0
    assert "no process of this user shares" in capsys.readouterr().out


# ---- ps and doctor: queues -------------------------------------------------------------------------------------------


def number_of(queue: vks.SurfaceQueue) -> str:
    """What ps and doctor call it."""
    return f"{pages.queue_page_inspect(queue._page)['id']:016x}"


def queue_told(queue: vks.SurfaceQueue) -> dict[str, Any]:
    """What ps tells of it."""
    (reported,) = [each for each in ps.collect()["queues"] if each["id"] == number_of(queue)]
    return reported


def doctor_findings(queue: vks.SurfaceQueue) -> list[doctor.Finding]:
    """What doctor finds odd of it."""
    found = [each for each in doctor.surface_queues() if number_of(queue) in each.name]
    assert {each.state for each in found} <= {"odd"}
    return found


@pytest.fixture
def loop(vks_open: Callable[..., vks.Device]) -> Iterator[Loop]:
    """A painter and a critic round two queues over three surfaces of 17x13."""
    with Loop(vks_open(name="painter"), vks_open(name="critic"), clone_metadata=24, width=17, height=13) as made:
        yield made


@pytest.mark.rule("K33")
def test_ps_in_another_process_tells_a_queues_ends_and_what_lies_in_it(loop: Loop) -> None:
    surface, _ = loop.free.dequeue(10)
    loop.out.enqueue(surface, b"no. 1", wait="gpu")
    held, _ = loop.free.dequeue(10)
    waiter = threading.Thread(target=lambda: [loop.seen.dequeue(10) for _ in "12"])
    waiter.start()
    wait_until(lambda: queue_told(loop.clone)["consumer"]["waits_seconds"] is not None)
    result = run("ps", "--json")
    assert result.returncode == 0, result.stderr
    reported = {each["id"]: each for each in json.loads(result.stdout)["queues"]}
    root, clone = (reported[number_of(queue)] for queue in (loop.root, loop.clone))
    assert root["network"] == clone["network"] != "0" * 16
    for queue, metadata_size in ((root, 0), (clone, 24)):
        size = queue["width"], queue["height"], queue["format"], queue["count"], queue["metadata_size"]
        assert size == (17, 13, "rgba8unorm", 3, metadata_size)
        assert queue["single_threaded"] is False
        assert os.getpid() in queue["processes"]
    assert [(q["ready"], q["pending"], q["free"]) for q in (root, clone)] == [(1, 0, 2), (0, 0, 3)]
    assert [(q["enqueued"], q["dequeued"]) for q in (root, clone)] == [(3, 2), (1, 1)]
    for queue, devices in ((root, ("critic", "painter")), (clone, ("painter", "critic"))):
        for end, device in zip((queue["producer"], queue["consumer"]), devices, strict=True):
            assert (end["device"], end["pid"], end["state"]) == (device, os.getpid(), "open")
            assert 0 <= end["seconds"] < 60
        assert 0 <= queue["enqueued_seconds_ago"] < 60
        assert 0 <= queue["dequeued_seconds_ago"] < 60
    assert root["consumer"]["waits_seconds"] is None
    assert 0 <= clone["consumer"]["waits_seconds"] < 60
    loop.out.enqueue(held, b"no. 2", wait="gpu")
    waiter.join()
    assert queue_told(loop.clone)["consumer"]["waits_seconds"] is None


@pytest.mark.rule("K33")
def test_ps_as_text_has_a_table_of_queues_and_one_of_their_ends(
    vks_device: vks.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    with vks.SurfaceQueue(vks_device, 19, 5, count=2, metadata_size=3) as queue:
        queue.open_consumer(vks_device).close()
        number = number_of(queue)
        assert main(["ps"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(number)]
    assert "2 of 19x5" in lines[0]
    assert lines[0].split()[5:10] == ["rgba8unorm", "bt709", "srgb", "rgb", "full"]
    assert lines[0].split()[10:14] == ["3", "2", "0", "0"], "bytes of metadata; ready, pending, free"
    assert lines[0].endswith(" never"), "dequeued"
    assert [line.split()[1] for line in lines[1:]] == ["producer", "consumer"]
    assert "never opened" in lines[1]
    assert " closed " in lines[2]


@pytest.mark.rule("K33")
def test_ps_and_doctor_tell_of_an_end_whose_process_died(
    vks_open: Callable[..., vks.Device], peers: Callable[..., Peer]
) -> None:
    peer = peers()
    with Loop(vks_open(), peer.device) as loop:
        before = queue_told(loop.clone)["consumer"]
        assert (before["state"], before["pid"]) == ("open", peer.pid)
        assert doctor_findings(loop.clone) == []
        peer.kill()
        assert not peer.is_running(10)
        reported = queue_told(loop.clone)
        assert (reported["consumer"]["state"], reported["consumer"]["pid"]) == ("dead", peer.pid)
        assert (reported["producer"]["state"], reported["producer"]["pid"]) == ("open", os.getpid())
        (finding,) = doctor_findings(loop.clone)
        assert finding.found == f"the process of its consumer, {peer.pid}, is gone"
        assert "recover()" in finding.advice


@pytest.mark.rule("K33")
def test_doctor_names_who_does_not_move_a_queue(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        loop.out.enqueue(loop.free.dequeue(10)[0], wait="gpu")
    assert doctor_findings(loop.clone) == [], "they were enqueued just now"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 90)
    (finding,) = doctor_findings(loop.clone)
    assert finding.found.startswith("2 of 3 are ready and nothing has moved for 1 min 30 s")
    assert f"process {os.getpid()}" in finding.advice
    assert "'critic'" in finding.advice
    loop.out.enqueue(loop.free.dequeue(10)[0], wait="gpu")
    (finding,) = doctor_findings(loop.clone)
    assert finding.found.startswith("it is full and nothing has moved")
    loop.seen.close()
    (finding,) = doctor_findings(loop.clone)
    assert finding.found.startswith("3 of 3 are ready, its consumer is closed, nothing has moved")
    assert doctor_findings(loop.root) == [], "an idle, empty one is as it should be"


@pytest.mark.rule("K33")
def test_what_was_put_down_and_not_committed_is_pending_and_doctor_says_who_has_to_flush(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mmap.mmap(loop.clone._page, 4096) as page:
        page[WRITTEN] = 2
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 9)
        reported = queue_told(loop.clone)
        (finding,) = doctor_findings(loop.clone)
        page[WRITTEN] = 0
    assert (reported["ready"], reported["pending"], reported["free"]) == (0, 2, 1)
    assert finding.found.startswith("2 were enqueued with wait=False and not committed, nothing has moved for 9.0 s")
    assert "flush()" in finding.advice


@pytest.mark.rule("K33")
def test_a_queue_page_that_was_written_over_is_unreadable_and_hides_no_other(
    loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    number, other = number_of(loop.clone), number_of(loop.root)
    with mmap.mmap(loop.clone._page, 4096) as page:
        kept = page[:]
        for at, garbage in ((WRITTEN, b"\xff" * 8), (TAKEN, b"\x07"), (COUNT, b"\x00" * 4), (COUNT, b"\xff" * 4)):
            page[at : at + len(garbage)] = garbage
            reported = ps.collect()
            page[:] = kept
            (why,) = [each["why"] for each in reported["unreadable"] if each["id"] == number]
            assert "surfaces" in why
            assert other in [each["id"] for each in reported["queues"]]
        generator = random.Random(5)
        for _ in range(40):
            for _ in range(generator.randrange(1, 30)):
                page[generator.randrange(64, 384)] = generator.randrange(256)  # all that is behind the header
            assert main(["ps", *generator.choice(([], ["--json"]))]) == 0
            doctor.surface_queues()
            page[:] = kept
            assert other in capsys.readouterr().out
        page[8] += 1  # of another version
        assert number not in str(ps.collect())
        page[:] = kept
    assert queue_told(loop.clone)["consumer"]["state"] == "open"


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_tables_align_and_units_read_well() -> None:
    text = table.render(("A", "NUMBER"), [("long cell", 1), ("x", 123)], right=("NUMBER",))
    assert text.split("\n") == ["A          NUMBER", "long cell       1", "x             123"]
    assert [table.nbytes(n) for n in (5, 2048, 8294400, 3 << 30)] == ["5 B", "2.0 KiB", "7.9 MiB", "3.0 GiB"]
    assert [table.seconds(s) for s in (0.012, 3.25, 75, 7300)] == ["12 ms", "3.2 s", "1 min 15 s", "2 h 1 min"]


@pytest.mark.rule("K33")
def test_ps_names_the_owner_that_is_neither_the_maker_nor_the_first(
    vks_open: Callable[..., vks.Device], peers: Callable[..., Peer]
) -> None:
    surface = vks_open(name="maker").create_surface(24, 10)
    idler, owner = peers(name="idler"), peers(name="the owner")
    opened(surface, idler.device)
    theirs = opened(surface, owner.device)
    theirs.acquire(0, 0)
    done = subprocess.run([sys.executable, "-m", "vkshare", "ps", "--json"], capture_output=True, text=True, check=True)
    (listed,) = (s for s in json.loads(done.stdout)["surfaces"] if os.getpid() in s["processes"] and s["width"] == 24)
    assert (listed["state"], listed["owner"]["pid"], listed["owner"]["device"]) == ("owned", owner.pid, "the owner")
    theirs.release(0)
