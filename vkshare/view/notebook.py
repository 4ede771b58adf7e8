"""Pictures in notebooks: ``vks.show()``, and surfaces at the end of a cell (rule W2)."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.core import watching
from vkshare.core.device import Device
from vkshare.core.published import Published
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.util import arguments
from vkshare.util.closing import Scoped, on_error
from vkshare.util.forks import OwnLock
from vkshare.view.input import ViewerInput
from vkshare.view.show import Show
from vkshare.view.widget_views import WidgetViews

if TYPE_CHECKING:
    import numpy as np

_PATIENCE = 1.0  # seconds that a cell waits for a picture at most
_MOST_SIDE = 1280  # pixels of the picture that a saved notebook keeps beside the widget

Bundle = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShownStatistics:
    """A snapshot of a picture in a notebook."""

    views: int  # cells that show it now
    sent: int  # messages to them
    garbage: int  # views that were ended for a malformed message
    events: int  # of input, ever
    merged: int  # events that went into the one before
    dropped: int  # events that no call of events() took in time


def show(
    source: Any,
    *,
    name: str | None = None,
    device: Device | None = None,
    on_event: Callable[[ViewerEvent], object] | None = None,
) -> Shown:
    """Shows a source in a notebook: the picture goes on in the cell, and keys and pointer come back.

    Make it a cell's last expression, or pass it to IPython's ``display()``. Its pictures are those of a
    page of ``vks.view.serve()``: bit by bit as they are, or video while much changes. No thread of the
    producer waits for the notebook. Where anywidget is missing the cell has a PNG picture of now.

    Parameters
    ----------
    source
        A Receiver, whose frames it takes; or a Surface, Sender, Swapchain, Compositor or published name, which it
        watches without taking part.
    name
        The text beside the picture; None: the published name, if `source` is one.
    device
        The device that reads the pictures; None: one of its own on the source's adapter.
    on_event
        Called with each input event, in order, on the kernel's thread. None: events wait for ``shown.events()``.

    Returns
    -------
    Shown
        It lasts until close(), or until the kernel ends.

    Raises
    ------
    TypeError
        The source is none of these.
    FileNotFoundError
        No living process has published the name.
    VkshareError
        The source cannot be watched.

    Examples
    --------
    >>> sender, descriptor = vks.pipe(device, 64, 48)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     with vks.show(receiver, name="a picture") as shown:
    ...         shown
    <vkshare.view.Shown 'a picture', 0 views>
    """
    named = name if name is not None else source.name if isinstance(source, Published) else source
    return Shown(source, arguments.text("name", named) if isinstance(named, str) else "", device, on_event)


class Shown(Scoped):
    """A picture in a notebook. Made by ``vks.show()``. Thread-safe.

    Attributes
    ----------
    name
        The text beside the picture.
    widget
        The anywidget, for layouts of ipywidgets; None where anywidget is missing.
    """

    _unpicklable = "it belongs to the kernel that shows it"

    def __init__(
        self, source: Any, name: str, device: Device | None, on_event: Callable[[ViewerEvent], object] | None
    ) -> None:
        self.name = name
        self._own = OwnLock(self)
        self._input = ViewerInput(source, on_event)
        self._lock = threading.Lock()  # guards _closed
        self._closed = False
        self._views = WidgetViews(self._send, self._attach, self._input.take)
        self._show = Show(source, device, name, on_change=self._views.attach_again, on_end=_nothing)
        with on_error(self._show.close):
            self.widget = _widget(self._views)
        # ipywidgets keeps a widget, and so this object, until the kernel ends.
        self._finalizer = weakref.finalize(self, _end, self._views, self._show, self._input)

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def events(self, timeout: float | None = 0) -> list[ViewerEvent]:
        """Returns the input events since the last call, oldest first.

        A notebook's kernel takes its messages between cells, so that a loop in a cell sees none of them
        (ipykernel 7 with JupyterLab 4.4 does). ``viewer`` is the number of the cell's view.

        Parameters
        ----------
        timeout
            Seconds to wait for the first event; 0 returns at once, None waits until there is one or it is closed.

        Returns
        -------
        list of ViewerEvent
            Empty if none came.
        """
        self._own.check()
        return self._input.events(timeout)

    def statistics(self) -> ShownStatistics:
        """Returns a snapshot of the counters."""
        views = self._views
        events, merged, dropped = self._input.counts()
        return ShownStatistics(len(views), views.sent, views.garbage, events, merged, dropped)

    def close(self) -> None:
        """Ends the picture: the cells keep the last one. The source stays open. Idempotent."""
        self._own.check()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._input.end_waits()
        self._finalizer()
        if self.widget is not None:
            self.widget.close()

    def _attach(self, send: Callable[[bytes], None], codecs: Sequence[str]) -> Any:
        return self._show.attach(send, codecs)

    def _send(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        if self.widget is not None:
            self.widget.pass_on(content, buffers)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        """The widget, and a picture for a notebook that is saved, or for a page without widgets."""
        if self._closed or not in_kernel():
            return {"text/plain": repr(self)}
        picture = self._show.picture(_PATIENCE)
        found = _bundle(self.widget, repr(self))
        if picture is not None:
            found["image/png"] = png(picture.rgba8, _MOST_SIDE if self.widget is not None else None)
        return found

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._show.end or self._show.waiting or f"{len(self._views)} views"
        return f"<vkshare.view.Shown {self.name!r}, {state}>"


def _nothing() -> None:
    """Nothing: the encoder sends the end of the source to the views."""


def _end(views: WidgetViews, show: Show, input: ViewerInput) -> None:
    views.close()
    show.close()
    input.close()


def _widget(views: WidgetViews) -> Any:
    """The widget; None where anywidget is missing."""
    try:
        from vkshare.view.widget import PictureWidget
    except ImportError:
        return None
    return PictureWidget(views.receive)


def _bundle(widget: Any, text: str) -> Bundle:
    if widget is None:
        return {"text/plain": text}
    found: Any = widget._repr_mimebundle_()
    data: Bundle = dict(found[0] if isinstance(found, tuple) else found or {})
    return {**data, "text/plain": text}


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel."""
    module = sys.modules.get("IPython")
    return module is not None and getattr(module.get_ipython(), "kernel", None) is not None


def png(rgba: np.ndarray[Any, Any], most_side: int | None = None) -> bytes:
    """Pixels (H, W, 4) as a PNG file without their alpha, as a page shows them; larger ones reduced to `most_side`.

    Raises
    ------
    UnsupportedError
        Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        why = f"Pillow is not there ({error})"
        raise UnsupportedError("a PNG picture", why, "pip install 'vkshare[notebook]'") from None
    image = Image.fromarray(rgba[..., :3])
    if most_side is not None:
        image.thumbnail((most_side, most_side))
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


# ---- surfaces at the end of a cell -------------------------------------------------------------------------------

_shown: weakref.WeakKeyDictionary[Surface, Shown] = weakref.WeakKeyDictionary()
_lock = threading.Lock()  # guards _shown


def surface_bundle(surface: Surface) -> Bundle:
    """The bundle of a surface that is a cell's last expression. It waits for no other owner.

    A surface that is free with the key of its watchers goes on in the cell, others are a PNG picture. A
    surface that another handle owns says so in text.
    """
    text = repr(surface)
    if not in_kernel() or surface.is_closed:
        return {"text/plain": text}
    try:
        return _surface_bundle(surface, text)
    except (VkshareError, OSError, ValueError) as error:  # TimeoutError, too
        return {"text/plain": f"{text}: no picture now ({error})"}


def _surface_bundle(surface: Surface, text: str) -> Bundle:
    if surface.is_owned:
        return {"text/plain": text, "image/png": _png_of(surface)}
    state = surface.mutex.statistics()
    if state.state != "free":
        owner = f" by process {state.owner_pid} ({state.owner_name})" if state.owner_pid else ""
        return {"text/plain": f"{text}: no picture now, because it is {state.state}{owner}"}
    if watching._key_of(surface) == state.key and (shown := _shown_of(surface)).widget is not None:
        return {**shown._repr_mimebundle_(), "text/plain": text}
    with (
        surface.export() as descriptor,
        surface.device.open_surface(descriptor) as other,
        other.access(state.key, state.key, 0, writable=False),
    ):
        return {"text/plain": text, "image/png": _png_of(other)}


def _png_of(owned: Surface) -> bytes:
    from vkshare.view.display_pixels import to_rgba8
    from vkshare.view.planar_pictures import PictureReader

    deadline = time.monotonic() + _PATIENCE
    with contextlib.closing(PictureReader()) as reader:
        return png(to_rgba8(*reader.read(owned, lambda: time.monotonic() >= deadline)))


def _shown_of(surface: Surface) -> Shown:
    """The one that all cells of the surface share."""
    with _lock:
        shown = _shown.get(surface)
        if shown is None or shown.is_closed or shown._show.end is not None:
            if shown is not None:
                with contextlib.suppress(VkshareError):
                    shown.close()
            shown = _shown[surface] = Shown(surface, "", None, None)
        return shown
