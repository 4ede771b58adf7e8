"""Calls of the C library through cffi: declarations, the GIL, signals, and the ends of objects."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.c_client import compiler
from support.time_limits import HANG, at_least
from support.tree_paths import ROOT

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.util import library_calls
from vkshare.util.library_calls import LibraryObject, ffi, lib
from vkshare.vsync.display_core import DisplayCore

INTERVAL = 16_666_667, 1, False


@pytest.fixture
def display() -> DisplayCore:
    return DisplayCore(*INTERVAL)


# ---- declarations ----------------------------------------------------------------------------------------------------


def test_the_module_has_every_function_of_the_public_header() -> None:
    headers = [Path(vks.get_include(), f"vkshare{part}.h").read_text() for part in ("", "_ipc", "_present")]
    code = re.sub(r"/\*.*?\*/", "", "\n".join(headers), flags=re.S)
    declared = set(re.findall(r"^\w[\w *]*?\b(vks_\w+)\(", code, flags=re.M))
    assert len(declared) > 100
    assert declared - set(dir(lib)) == set()
    assert lib.VKS_MAX_METADATA == 1 << 16
    assert ffi.sizeof("vks_surface_body") == 120  # packed


HEADER = """
#define VKS_LEAST 3u /* a number */
#define VKS_TEXT "text"
#define VKS_DO(x) (x)
typedef struct vks_thing vks_thing;
typedef struct __attribute__((packed)) vks_pair { uint8_t first; uint32_t second[VKS_LEAST]; } vks_pair;
struct vks_thing { _Atomic int count; };
typedef enum vks_state { VKS_A, VKS_B = VKS_LEAST } vks_state;
static inline int vks_inline(int x) { if (x) { return 1; } return 2; }
__attribute__((visibility("default"))) int vks_exported(vks_thing *thing, /* until
 then */ uint64_t deadline);
void vks_internal(void);
"""


def test_the_declarations_are_derived_from_headers(tmp_path: Path) -> None:
    folder = ROOT / "cmake"
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from emit_library import *\n" + (
        "found = list(declarations(sys.stdin.read(), {'vks_exported'}))\n"
        "print(*found, *wait_macros({'vks_exported': found[-1]}), sep='\\n')"
    )
    text = subprocess.run(
        [*compiler(), "-E", "-dD", "-P", "-x", "c", "-"], input=HEADER, capture_output=True, text=True, check=True
    ).stdout
    text = text[text.index("#define VKS_LEAST") :]
    printed = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == [
        "#define VKS_LEAST ...",
        "typedef struct vks_thing vks_thing;",
        "typedef struct vks_pair { uint8_t first; uint32_t second[3u]; ...; } vks_pair;",
        "struct vks_thing;",
        "typedef enum vks_state { VKS_A, VKS_B = 3u } vks_state;",
        "int vks_exported(vks_thing *thing, uint64_t deadline);",
        "#define vks_exported(thing, deadline) VKPY_WAIT(vkpy_sleep_until(deadline), vks_exported(thing, deadline))",
    ]


# ---- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X8")
def test_a_wait_releases_the_gil(display: DisplayCore) -> None:
    source = display.listen("software")
    waiting = threading.Thread(target=lambda: library_calls.wait(_wanted(display, source), 0.2))
    waiting.start()
    rounds = 0
    while waiting.is_alive():
        rounds += 1
        time.sleep(0.001)
    assert rounds > 2


@pytest.mark.rule("X8")
def test_short_calls_keep_the_gil(display: DisplayCore) -> None:
    wanted, stop, turns = _wanted(display, display.listen("software")), False, 0

    def take_turns() -> None:
        nonlocal turns
        while not stop:
            turns += 1
            time.sleep(0)

    other, interval = threading.Thread(target=take_turns), sys.getswitchinterval()
    other.start()
    sys.setswitchinterval(HANG)  # the other thread gets the GIL only if a call releases it
    try:
        time.sleep(0.02)  # a wait for the GIL that began before would end by the old interval
        before = turns
        for _ in range(50_000):
            assert display.number
            assert library_calls.wait(wanted, 0) == library_calls.TIMEOUT
        assert turns == before
    finally:
        sys.setswitchinterval(interval)
        stop = True
        other.join()


def _wanted(display: DisplayCore, source: int) -> Any:
    return lambda until: lib.vks_display_wait_wanted(display._pointer, source, True, until)


@pytest.mark.rule("X7", "X8")
def test_a_signal_whose_handler_returns_does_not_end_or_stretch_a_wait(display: DisplayCore) -> None:
    source, calls = display.listen("software"), []
    previous = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with at_least(0.3):
            assert library_calls.wait(_wanted(display, source), 0.3) == library_calls.TIMEOUT
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(calls) > 2


@pytest.mark.rule("X8")
def test_ctrl_c_ends_a_wait(display: DisplayCore) -> None:
    source = display.listen("software")
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        display.wait_wanted(source, True)
    timer.join()


@pytest.mark.parametrize(
    ("timeout", "error", "said"),
    [
        ("soon", TypeError, r"timeout must be float seconds or None, not str \('soon'\)"),
        (-1, ValueError, "timeout is -1, allowed is a number of seconds >= 0, or None to wait for ever"),
        (float("nan"), ValueError, "timeout is nan, allowed"),
    ],
)
def test_a_bad_timeout_is_refused_before_the_call(timeout: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        library_calls.wait(lambda until: pytest.fail("called"), timeout)


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (2**64, ValueError), (0.5, TypeError), ("1", TypeError)]
)
def test_a_number_that_is_no_64_bit_integer_is_refused(
    display: DisplayCore, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^time (is -?\d+, allowed is 0 to 2\*\*64 - 1|must be an integer, not )"):
        display.report(0, value)


# ---- objects ---------------------------------------------------------------------------------------------------------


def test_an_object_without_a_finished_init_says_so() -> None:
    with pytest.raises(InvalidCallError, match="this DisplayCore was never initialised: its __init__ did not run, or "):
        DisplayCore.__new__(DisplayCore).shutdown()


def test_a_second_init_is_refused_and_the_object_stays(display: DisplayCore) -> None:
    number = display.number
    with pytest.raises(InvalidCallError, match=r"Display\.__init__ ran already: make another Display"):
        display.__init__(*INTERVAL)
    assert display.number == number


@pytest.mark.parametrize("is_owner_first", [True, False])
def test_an_object_in_a_cycle_ends_after_the_finalizers_of_the_cycle(
    is_owner_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector finalizes a cycle in an order of its own, which follows that of creation."""
    ended: list[str] = []
    cell = ffi.typeof("vks_drawable **"), lambda cell: ended.append("object")
    monkeypatch.setattr(library_calls, "_cell_of", lambda kind: cell)

    class Owner:
        def __del__(self) -> None:
            ended.append("owner")

    made = [Owner, lambda: create_thing(lambda cell: lib.VKS_OK)]
    first, second = (make() for make in (made if is_owner_first else reversed(made)))
    first.other, second.other = second, first
    del first, second
    gc.collect()
    assert ended == ["owner", "object"]


def create_thing(create: Callable[[Any], int]) -> Any:
    class Thing(LibraryObject):
        pass

    thing = Thing()
    thing._make("vks_drawable", "Thing", create)
    return thing


def test_a_call_that_fails_raises_the_error_of_its_status(display: DisplayCore) -> None:
    display.shutdown()
    with pytest.raises(ClosedError, match=r"^Display\.set_interval: the display was shut down$"):
        display.set_interval(*INTERVAL)


STORM = """
import gc, os, sys, warnings
from vkshare import vsync

warnings.simplefilter("ignore", ResourceWarning)
left = 0

def interrupt(frame, event, argument):
    global left
    frame.f_trace_opcodes = True
    left -= event == "opcode"
    if left == 0:
        sys.settrace(None)
        raise KeyboardInterrupt
    return interrupt

def make(dispatcher):
    vsync.VsyncBridge(dispatcher).close()

with vsync.Display() as display, vsync.VsyncDispatcher(display) as dispatcher:
    make(dispatcher)
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reads at settrace() whether any frame wants opcodes
    fds = os.listdir("/proc/self/fd")
    for place in range(1, 2000):
        left = place
        sys.settrace(interrupt)
        try:
            make(dispatcher)
        except KeyboardInterrupt:
            pass
        sys.settrace(None)
        gc.collect()
        assert os.listdir("/proc/self/fd") == fds, place
        if left > 0:
            break
print(place)
"""


def test_ctrl_c_anywhere_in_the_life_of_an_object_ends_it_once() -> None:
    printed = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", STORM], capture_output=True, text=True, check=True
    )
    assert 50 < int(printed.stdout) < 2000


def test_objects_of_hot_calls_keep_their_attributes_without_a_dict() -> None:
    """CPython looks a method up a third slower in an object whose ``__dict__`` was made."""
    with (
        vks.open(backend="cpu") as device,
        device.create_surface(8, 8) as surface,
        device.create_fence() as fence,
        vks.SurfaceQueue(device, 8, 8, count=2) as queue,
        queue.open_producer(device) as producer,
    ):
        assert (surface.generation, fence.is_follower, producer.metadata_size) == (1, False, 0)
        for hot in (surface, fence, producer):
            assert not [kept for kept in gc.get_referents(hot) if type(kept) is dict and "_pointer" in kept]
