"""What does remoting cost: time of an acquire, pictures a second behind a bad network, bytes, and memory?

The figures and their limits are those of the rules M1, M7 and M8, and of docs/remote.md.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.measure import Samples, Spread, percentile
from benchmarks.plan import Plan
from benchmarks.processes import ChildFailed, started
from benchmarks.remote_load import (
    CONTENTS,
    SIZE,
    Ends,
    after,
    host_main,
    photo,
    program_main,
    quiet_environment,
    resident,
    show,
    viewer_main,
    window_main,
)
from benchmarks.rfb import Client, NoVnc, tigervnc
from vkshare.remote.compression import zstandard
from vkshare.testing.link import LinkProxy

_FAR: dict[str, Any] = {"delay": 0.1}  # seconds each way: 200 ms there and back
_SLOW: dict[str, Any] = {"delay": 0.025, "rate": 125_000}  # 1 Mbit/s
_FRAME = 1 / 60  # seconds
_PATIENCE = 300.0  # seconds
_LEVEL = 3  # of zstd, which the link has too
_WARM_UP = 0.25  # of the time over which memory is looked at


def run(plan: Plan) -> None:
    """Acquires, the demo, bytes of both kinds of content, and memory on a slow link."""
    with quiet_environment():
        plan.progress("acquires")
        _acquires(plan)
        plan.progress("the demo")
        _demo(plan)
        for number in range(len(CONTENTS)):
            plan.progress("bytes of vector content")
            _vector_bytes(plan, number)
        plan.progress("bytes of pictures")
        _picture_bytes(plan)
        plan.progress(f"memory, for {plan.minutes:g} minutes")
        _memory(plan)


# ---- time ------------------------------------------------------------------------------------------------------------


def _acquires(plan: Plan) -> None:
    """Times an acquire of a surface that the viewer draws to, on a link of 200 ms."""
    samples: Samples = []
    with Ends(**_FAR) as ends, ends.host.open() as device, device.create_surface(256, 256) as surface:
        for number in range(30 if plan.quick else round(60 * plan.seconds)):
            begin = time.perf_counter()
            surface.acquire(number)
            samples.append(time.perf_counter() - begin)
            device.submit(device.record().clear(surface, (number % 2, 0, 0, 1)))
            surface.release(number + 1)
            time.sleep(_FRAME)
    plan.own("uncontended acquire, round trip of 200 ms, p50", percentile(samples, 50), most=5e-3, place="-")
    plan.own("uncontended acquire, round trip of 200 ms, p99", percentile(samples, 99), most=_FRAME, place="-")


def _demo(plan: Plan) -> None:
    """Runs `vkshare demo desktop --remote`: 200 ms there and back, 20 Mbit/s, 1 % loss."""
    frames = 120 if plan.quick else 900
    command = [sys.executable, "-m", "vkshare", "demo", "desktop", "--remote", "--headless", "--backend", "cpu"]
    command += ["--frames", str(frames), "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_PATIENCE, check=False)
    if not ended.stdout.startswith("{"):
        plan.note(f"the demo ended with status {ended.returncode}, and no report")
        return
    report: dict[str, Any] = json.loads(ended.stdout)
    remote, steady = report["remote"], report["steady"]
    viewer, pictures = remote["viewer"], remote["pictures"]
    others = {
        "composited at the host": steady["composites"] / steady["seconds"],
        "ticks a second there": steady["ticks"] / steady["seconds"],
    }
    what = "demo desktop --remote: pictures a second at the viewer"
    plan.add(what, "a second", viewer["rate"], viewer["rate"], is_rate=True, least=60, place="-", others=others)
    plan.own("longest time between two of them", viewer["longest"], place="-")
    plan.own("play-out delay at the end", viewer["delay"], place="-", most=0.3)
    unequal = pictures["shown"] - pictures["equal"]
    others = {"compared": pictures["shown"], "replaced on the way": remote["replaced"]}
    plan.count("pictures that differ from a local run's (SHA-256)", unequal, most=0, place="-", others=others)
    for fault in report["faults"]:
        plan.note(f"the demo: {fault}")


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _vector_bytes(plan: Plan, number: int) -> None:
    """Bytes to the viewer for each frame, and those of a VNC server for each update that shows the same."""
    seconds = 1.0 if plan.quick else max(2.0, plan.seconds)
    with Ends() as ends, ends.host.open() as device, CONTENTS[number](device) as content:
        target = ends.host.window(*SIZE, "bench")
        show(device, target, content, after(0.5))
        before = ends.sent(device)
        frames = show(device, target, content, after(seconds))
        ours = (ends.sent(device) - before) / frames
        name = content.name
    theirs = None
    with plan.noting("a VNC server", NoVnc, ChildFailed):
        theirs = _vnc_bytes(number, seconds)
    figure = None if theirs is None else ours / theirs
    what = f"bytes of a frame of {name}"
    plan.ratio(what, figure, ours, theirs, against="VNC", unit="things", most=1 / 50, place="-")


def _vnc_bytes(number: int, seconds: float) -> float:
    with (
        tigervnc(*SIZE) as server,
        started(window_main, server.display, number) as child,
        Client(server) as client,
    ):
        child.heard(_PATIENCE)
        client.updates(1.0, least=5)  # the first ones have the whole screen
        before = client.received
        count = client.updates(seconds, least=20)
        return (client.received - before) / count


def _picture_bytes(plan: Plan) -> None:
    """Bytes to the viewer for pixels that change, and those of zstd for the changed pixels alone."""
    width, height = SIZE
    regions = {
        "the whole picture": (0, 0, width, height),
        "tiles of it": (128, 128, 384, 256),
        "an odd rectangle of it": (101, 77, 333, 211),
    }
    for name, (x, y, columns, rows) in regions.items():
        compressor = zstandard().ZstdCompressor(level=_LEVEL)
        theirs = 0
        with Ends() as ends, ends.host.open() as device, device.create_surface(width, height) as surface:
            picture = photo(width, height, 0)
            _write(surface, picture)
            before = ends.sent(device)
            for number in range(1, 3 if plan.quick else 7):
                changed = photo(columns, rows, number)
                picture[y : y + rows, x : x + columns] = changed
                _write(surface, picture)
                theirs += len(compressor.compress(np.ascontiguousarray(changed).tobytes()))
            ours = ends.sent(device) - before
        what = f"bytes of pixels that change, {name}"
        plan.ratio(what, ours / theirs, ours, theirs, against="zstd", unit="bytes", most=1.1, place="-")


def _write(surface: Any, picture: Any) -> None:
    with surface.access():
        surface.write(picture)


# ---- memory ----------------------------------------------------------------------------------------------------------


def _memory(plan: Plan) -> None:
    """Looks at the memory of a host and a viewer while more is drawn than a link of 1 Mbit/s carries."""
    seconds = 10.0 if plan.quick else plan.minutes * 60
    with contextlib.ExitStack() as opened:
        host = opened.enter_context(started(host_main))
        address, path = host.heard(_PATIENCE)
        link = opened.enter_context(LinkProxy(address, seed=1, **_SLOW))
        viewer = opened.enter_context(started(viewer_main, link.address))
        viewer.heard(_PATIENCE)
        program = opened.enter_context(started(program_main, path, patience=30.0))
        found = _sampled({"host": host.pid, "viewer": viewer.pid}, seconds)
        program.pipe.send("enough")
        frames, pictures = program.heard(_PATIENCE)
    for name, samples in found.items():
        first, second = samples[: len(samples) // 2], samples[len(samples) // 2 :]
        what = f"memory of the {name}, {seconds / 60:g} minutes at 1 Mbit/s"
        plan.ratio(
            what,
            statistics.median(second) / statistics.median(first),
            Spread.of(second),
            Spread.of(first),
            against="the first half",
            unit="bytes",
            most=1.05,
            place="-",
            note=f"{frames} frames and {pictures} pictures were drawn; at most {max(samples) / 1e6:.0f} MB",
        )


def _sampled(pids: dict[str, int], seconds: float) -> dict[str, list[float]]:
    """Looks once a second, after a warm-up."""
    begin = time.monotonic()
    found: dict[str, list[float]] = {name: [] for name in pids}
    while (now := time.monotonic()) < begin + seconds:
        if now >= begin + min(_WARM_UP * seconds, 60.0):
            for name, pid in pids.items():
                found[name].append(float(resident(pid)))
        time.sleep(min(1.0, seconds / 20))
    return found
