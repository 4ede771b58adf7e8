"""The compositor: composites clients' windows at the vsync of their display (rule R18).

Each compositor has a thread. It sleeps until the display ticks, a client has a frame, or a method
is called. CompositorScheduler and Scene, which are pure, decide what it does then. It waits for no
client: it shows each window's newest frame whose GPU work is complete; without a new one, the
previous frame stays.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from vkshare.backends.base import BufferSpec
from vkshare.compositor import frame_sources
from vkshare.compositor.closer import Closer
from vkshare.compositor.frame_sources import Descriptor, Keys
from vkshare.compositor.loop import Loop
from vkshare.compositor.output import Factory, Output
from vkshare.compositor.pointer import Pointer
from vkshare.compositor.scene import Placement, Scene
from vkshare.compositor.statistics import CompositorStatistics
from vkshare.compositor.window import ClientWindow, placed
from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.core.watchable import Watchable
from vkshare.core.watched_picture import Picture
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.vsync import Display, InputQueue, VsyncDispatcher

if TYPE_CHECKING:
    from vkshare.core.outlet import Outlet
    from vkshare.present.swapchain import Swapchain
    from vkshare.window.events import Event

MOST_WINDOWS = 1024


class Compositor(FlagClosing, Watchable):
    """Shows clients' windows on one target.

    Thread-safe; in a forked child every call but close() is refused (InvalidCallError).

    Parameters
    ----------
    device
        A Device, which stays the caller's; or a callable that opens one, called again after a
        device loss.
    target
        A target of device.create_swapchain(): a vks.Window, vks.Headless(width, height), an
        engine's window.
    display
        The display whose ticks it composites at; stays the caller's. None: a display of its own, at
        60 Hz.
    background
        (red, green, blue, alpha) of pixels without a window.
    name
        A name for logs and reprs.
    on_input
        on_input(event) is called on the compositor's thread for each posted event, before the event
        is handled. If it returns True, the event is not handled further.
    swapchain
        Further keywords of device.create_swapchain(): present_mode, image_count, capture ...

    Raises
    ------
    UnsupportedError, SurfaceLostError
        As device.create_swapchain().
    ClosedError
        The device or the display is closed.
    ValueError, TypeError
        An argument is not as above.
    """

    _published_as = "compositor"

    def __init__(
        self,
        device: Device | Factory,
        target: Any,
        display: Display | None = None,
        *,
        background: Sequence[float] = (0, 0, 0, 1),
        name: str = "",
        on_input: Callable[[Event], object] | None = None,
        **swapchain: Any,
    ) -> None:
        self.name = arguments.text("name", name)
        shade = arguments.colour("background", background)
        if display is not None and not isinstance(display, Display):
            raise TypeError(f"display must be a vkshare.vsync.Display or None, not {type(display).__name__}")
        self._lock = OwnLock(self)  # guards the scene, the windows and the counters
        self._scene = Scene()
        self._windows: dict[Placement, ClientWindow] = {}
        self._by_number: dict[int, ClientWindow] = {}
        self._numbers = itertools.count(1)
        self._inputs = InputQueue()
        self._pointer = Pointer(self, on_input)
        self._closed = True  # until the constructor succeeds
        with contextlib.ExitStack() as made:
            self._output = made.enter_context(contextlib.closing(Output(device, target, swapchain)))
            self._owns_display = display is None
            self._display = display if display is not None else made.enter_context(Display(self.name or "compositor"))
            self._dispatcher = made.enter_context(VsyncDispatcher(self._display))
            self._observer = made.enter_context(self._dispatcher.observe())
            self._observer.rest()
            self._closer = Closer(f"vks-close-windows {self.name}".strip())
            self._loop = made.enter_context(contextlib.closing(Loop(self, self._output, self._observer, shade)))
            name = f"compositor {self.name}".strip()
            self._thread = threading.Thread(target=self._loop.run, name=name, daemon=True)
            self._closed = False
            made.callback(setattr, self, "_closed", True)
            self._thread.start()
            made.pop_all()

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """The device that it draws with now."""
        return self._output.device

    @property
    def swapchain(self) -> Swapchain:
        """The swapchain that it presents with now."""
        return self._output.swapchain

    @property
    def display(self) -> Display:
        """The display whose ticks it composites at."""
        return self._display

    @property
    def windows(self) -> tuple[ClientWindow, ...]:
        """The open windows, bottom to top."""
        with self._lock:
            return tuple(self._windows[placement] for placement in self._scene.stack)

    @property
    def is_running(self) -> bool:
        """Whether its thread still composites."""
        return self._thread.is_alive() and not self._loop.stopping.is_set()

    @property
    def error(self) -> BaseException | None:
        """The error that ended its thread, e.g. SurfaceLostError after a loss of the window system.

        None while it runs.
        """
        return self._loop.error

    def statistics(self) -> CompositorStatistics:
        """Returns a snapshot of the counters."""
        with self._lock:
            counts: dict[str, Any] = dict(self._loop.counts)
            for name in ("shown", "superseded", "lost"):
                counts[name] += sum(getattr(window, f"_{name}") for window in self._windows.values())
            counts["longest"] *= 1e-9
            latest = self._loop.scheduler.statistics().latest * 1e-9
            return CompositorStatistics(**counts, windows=len(self._windows), latest=latest)

    def capture(self, timeout: float | None = 10) -> Any:
        """Returns the current picture, as Swapchain.capture() does.

        The compositor's thread reads it between two composites.

        Parameters
        ----------
        timeout
            Seconds to wait for that thread; None: without limit.

        Raises
        ------
        InvalidCallError
            Nothing was composited yet; or the frames of a window target are not kept (needs
            capture=True).
        TimeoutError
            The thread was busy for that long.
        ClosedError
            The compositor is closed, or its thread has ended.
        """
        if threading.current_thread() is self._thread:
            self._check()
            return self.swapchain.capture()
        pending: Future[Any] = Future()
        with self._lock:
            self._check()
            self._loop.captures.append(pending)
        self._wake(is_change=False)
        return pending.result(arguments.timeout(timeout))

    # ---- windows --------------------------------------------------------------------------------------------------

    def open_window(
        self,
        source: Descriptor | Surface,
        *,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        acquire: int = 1,
        release: int = 0,
        on_input: Callable[[Event], object] | None = None,
        on_end: Callable[[ClientWindow, str], object] | None = None,
    ) -> ClientWindow:
        """Opens a client's window, on top of the others.

        Opens the client's memory on the calling thread. The window is visible from its first
        complete frame on.

        Parameters
        ----------
        source
            The descriptor of a pipe (``vks.pipe()``): its newest frame is shown, and kept until a
            newer one arrives. Or a Surface, or its descriptor: its contents are copied each time
            that the client releases it with the key `acquire`; it is then released with the key
            `release`. Stays the caller's.
        title
            A title for logs and reprs.
        at
            (x, y) of its top left corner, in the target's pixels.
        opacity
            0 to 1.
        is_opaque
            Whether its pictures have no transparent pixels: windows below need not be drawn.
        acquire, release
            For a surface: the keys by which the compositor acquires and releases it.
        on_input
            on_input(event) is called for events on the window, on the compositor's thread, with
            positions in the window.
        on_end
            on_end(window, why) is called on the compositor's thread when the client will send no
            further frame, or when the compositor had to close the window. The last frame stays
            until close().

        Returns
        -------
        ClientWindow
            Its owner closes it; so does the compositor's close().

        Raises
        ------
        DescriptorError, DeviceMismatchError, UnsupportedError
            The source cannot be opened on the compositor's device.
        InvalidCallError
            The queue is not a pipe, or already has a receiver; the surface's usage lacks "sample",
            or "copy"; 1024 windows are open.
        ClosedError
            The compositor is closed, or its thread has ended.
        ValueError, TypeError
            An argument is not as above; the text names it.
        """
        window = self._prepare(
            source, title, at, opacity, is_opaque, Keys(acquire, release), on_input=on_input, on_end=on_end
        )
        window._show()
        return window

    def _prepare(
        self,
        source: Descriptor | Surface,
        title: str,
        at: Sequence[float],
        opacity: float,
        is_opaque: bool,
        keys: Keys,
        *,
        on_input: Callable[[Event], object] | None = None,
        on_end: Callable[[ClientWindow, str], object] | None = None,
    ) -> ClientWindow:
        """Creates a window without opening its source. Returns at once."""
        self._check()
        arguments.keys(*keys)
        placement = placed(*_size_of(source), at, opacity, is_opaque)
        descriptor = source.export() if isinstance(source, Surface) else source.duplicate()
        with on_error(descriptor.close):
            return ClientWindow(self, descriptor, keys, placement, arguments.text("title", title), on_input, on_end)

    def window_at(self, x: float, y: float) -> ClientWindow | None:
        """Returns the topmost window visible at a point.

        Parameters
        ----------
        x, y
            The point, in the target's pixels from its top left corner.

        Returns
        -------
        ClientWindow | None
            The window; None: only the background is there.
        """
        with self._lock:
            placement = self._scene.at(x, y, time.monotonic_ns())
            return None if placement is None else self._windows[placement]

    # ---- input, displays ------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Adds an input event, as ``Window.poll()`` of the target returns it.

        It is handled before the composite of the next tick (rule V15). A press raises the window
        under it. The left button drags a window without on_input, and any window while Alt is held.
        Other events go to the window under the pointer, or to the one pressed last.
        """
        self._lock.check()
        self._inputs.post(event)
        self._loop.has_input.set()
        self._wake(is_change=False)

    def move(self, display: Display) -> None:
        """Composites at another display's ticks from now on, after the target was moved there.

        The windows' ticks move too.

        Parameters
        ----------
        display
            The other display; stays the caller's.

        Raises
        ------
        ClosedError
            The display or the compositor is closed.
        """
        with self._lock:
            self._check()
            self._dispatcher.move(display)
            for window in self._windows.values():
                window.dispatcher.move(display)
            before, self._display = self._display, display
            owned, self._owns_display = self._owns_display, False
        if owned:
            before.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until its thread has ended, by close() or by an error.

        Parameters
        ----------
        timeout
            Seconds to wait; None: without limit.

        Returns
        -------
        bool
            Whether the thread has ended.
        """
        self._lock.check()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes all windows and ends the thread. Waits for a composite in progress. Idempotent."""
        if not self._lock.is_here:
            return
        self._close_outlets()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._loop.stopping.set()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for window in self.windows:
            window._end("")
        self._closer.join()
        self._observer.close()
        self._dispatcher.close()
        if self._owns_display:
            self._display.close()
        self._output.close()
        with self._lock:
            self._loop.close()

    def _is_lost(self) -> bool:
        return not self._closed and self._lock.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._windows)} windows"
        if self._loop.error is not None:
            state += f", ended by {type(self._loop.error).__name__}"
        return f"<vkshare.compositor.Compositor {self.name!r} on {self._display.name!r}, {state}>"

    # ---- within the package ---------------------------------------------------------------------------------------

    def _picture(self) -> Picture:
        self._check()
        swapchain = self.swapchain
        width, height = swapchain.extent
        # A hidden window has no pixels.
        return Picture(swapchain.device, max(1, width), max(1, height), swapchain.format)

    def _frame_count(self) -> int:
        return int(self._loop.counts["composites"])

    def _check_watchable(self) -> None:
        self._check()

    def _show_last(self, outlet: Outlet) -> bool:
        self._wake()  # the next tick composites, whether or not a window has a frame
        return True

    def _check(self) -> None:
        self._lock.check()
        if self._closed:
            raise ClosedError("this compositor is closed")
        if self._loop.error is not None:
            raise ClosedError(f"this compositor has ended: {self._loop.error}") from self._loop.error

    def _wake(self, *, is_change: bool = True) -> None:
        if is_change:
            self._loop.needs_composite.set()
        with self._lock:
            self._loop.wake()

    def _attach(self, window: ClientWindow, source: frame_sources.FrameSource | None, device: Device) -> bool:
        """Adds a window with its source. False: the device that the source was opened on has been replaced."""
        with self._lock, window._state:
            self._check()
            window._check()
            if self.device is not device:
                return False
            if len(self._windows) >= MOST_WINDOWS:
                raise InvalidCallError(f"{MOST_WINDOWS} windows are open, which is the limit: close some")
            # the compositor, or the window, has moved meanwhile
            if window.dispatcher.display is not self._display:
                window.dispatcher.move(self._display)
            window.number = next(self._numbers)
            window._source = source
            window._compositor = self
            window._is_watched = False
            self._windows[window._placement] = window
            self._by_number[window.number] = window
            self._scene.add(window._placement)
            self._wake()
            return True

    def _detach(self, window: ClientWindow) -> None:
        """Removes a window. Caller holds self._lock."""
        if self._windows.pop(window._placement, None) is None:
            return
        del self._by_number[window.number]
        self._scene.remove(window._placement)
        self._pointer.forget(window)
        for name in ("shown", "superseded", "lost"):
            self._loop.counts[name] += getattr(window, f"_{name}")
        self._wake()


def _size_of(source: object) -> tuple[int, int]:
    if not isinstance(source, (Surface, SurfaceDescriptor, QueueDescriptor)):
        kind = type(source).__name__
        raise TypeError(f"source must be a Surface, a SurfaceDescriptor or a pipe's QueueDescriptor, not {kind}")
    spec = source.spec
    if isinstance(spec, BufferSpec):
        raise TypeError("source is a pipe of buffers, which have no picture: give one of vks.pipe()")
    return spec.width, spec.height
