"""The C extension: the objects of the core, as thin as they can be. The public classes derive from these.

Timeouts are float seconds, None waits for ever, 0 tests. Every method is thread-safe; those that
block release the GIL and answer Ctrl-C. Errors are the classes of vkshare.errors and built-in ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self

MESSAGE_CALLBACK: int  # address of vks_message_callback (native/backend/messages.h)

class Device:
    """One queue. `queue_lock`: what its lock needs alive."""

    @property
    def _address(self) -> int: ...
    def __init__(self, cell: object, queue_lock: object = None) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def submit(self, *commands: Any, waits: Any = (), signals: Any = ()) -> Submission: ...
    def _check(self) -> None: ...  # raises if closed, lost or inherited through fork
    def _reap(self, all: bool = False) -> int: ...
    def _shutdown(self) -> bool: ...  # False: the driver hangs, nothing may be destroyed
    def _set_recorder(self, recorder: object, subpixel_bits: int) -> None: ...  # a capsule, or None; one is kept

class Submission:
    """Work that was handed to a device; awaitable. Made by Device.submit()."""

    def is_done(self) -> bool:
        """Returns whether it has run; raises the cause if it failed."""
    @property
    def is_held(self) -> bool: ...
    @property
    def serial(self) -> int: ...  # 0 while held
    @property
    def device(self) -> Device: ...
    def wait(self, timeout: float | None = None) -> None:
        """Waits until it has run; TimeoutError after `timeout` seconds."""
    @property
    def _address(self) -> int: ...  # of its vks_submission
    def __reduce_ex__(self, protocol: Any) -> NoReturn: ...
    def __await__(self) -> Any: ...  # calls vkshare.core.event_loop.wait_submission(self)

class CommandList:
    """Base of the public CommandList. submit() calls self._compile() once, which must call _set_vulkan().

    `uses` is empty, or one pair (Surface, writes: bool).
    """

    def __init__(self, device: Device) -> None: ...
    @property
    def device(self) -> Device: ...
    @property
    def _is_compiled(self) -> bool: ...
    @property
    def _surfaces(self) -> Sequence[Any]: ...  # that the commands use
    def _set_relayed(self, body: bytes, surface: Surface, writes: bool, retire: Callable[[], object], /) -> None: ...
    def _set_vulkan(
        self, command_buffer: int, uses: Sequence[tuple[Surface, bool]], retire: Any, transfer_buffer: int = 0, /
    ) -> None: ...
    # retire: a callable of no arguments, called from Device._reap() once the last use has run
    def _reset(self) -> None: ...  # forgets what was compiled: more commands were recorded

class Recording(CommandList):
    """A CommandList that records, and is compiled by its device's Recorder. The public class documents the methods.

    Where C cannot do it alone it calls device._compile(list, missing), which makes the Recorder
    (None) or a pipeline (number, format code), or sets the commands itself.
    """

    @property
    def is_closed(self) -> bool: ...
    @property
    def _address(self) -> int: ...  # of the vks_recording, which lives as long as this object
    @property
    def _surfaces(self) -> list[Any]: ...  # of each use of the vks_recording; C appends to it
    def _clear(self, target: Any, colour: Any, /) -> Self: ...
    def _fill_rect(self, target: Any, rect: Any, colour: Any, /) -> Self: ...
    def _copy(self, source: Any, target: Any, source_rect: Any, at: Any, /) -> Self: ...
    def _blit(self, source: Any, target: Any, source_rect: Any, target_rect: Any, filter: Any, /) -> Self: ...
    def _composite(self, source: Any, target: Any, at: Any, opacity: Any, alpha: Any, codes: bool, /) -> Self: ...
    def _draw_triangles(
        self, target: Any, vertices: Any, texture: Any, filter: Any, depth: Any, state: int, /
    ) -> Self: ...
    def _close(self) -> None: ...
    def _compile(self) -> None: ...

class ArrayBuffer:
    """The base of the public View: exports the buffer of its property `array`."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Fence:
    """A timeline. The base of vkshare.core.fence_core.FenceCore, which creates what is in the cell."""

    def __init__(self, device: Device, cell: object) -> None: ...  # library_calls.cell_capsule("vks_fence", cell)
    @property
    def _address(self) -> int: ...
    @property
    def device(self) -> Device: ...
    @property
    def value(self) -> int: ...
    @property
    def queued_value(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    def signal(self, value: int) -> None: ...
    def wait(self, value: int, timeout: float | None = None) -> None: ...
    def is_done(self, value: int) -> bool: ...

class Surface:
    """One handle of a keyed mutex. The base of vkshare.core.surface_core.SurfaceCore."""

    def __init__(self, device: Device, cell: object, memory: object = None) -> None: ...
    # memory: kept until the last use has run
    @property
    def _address(self) -> int: ...
    def _set_drawable(self, drawable: object) -> None: ...  # a capsule; once
    def _close(self) -> int: ...  # serial after which the image may go; idempotent
    @property
    def device(self) -> Device: ...
    @property
    def is_owned(self) -> bool: ...
    @property
    def _may_submit(self) -> bool: ...  # owned, or a mode="gpu" ownership is open
    @property
    def is_closed(self) -> bool: ...
    def _set_read_only(self) -> None: ...
    @property
    def is_read_only(self) -> bool: ...
    def acquire(self, key: int = 0, timeout: float | None = None, *, mode: str = "cpu+gpu") -> None: ...
    def release(self, key: int = 0) -> None: ...
    def _cpu_access(self, timeout: float | None = None) -> None: ...  # waits until the CPU may touch the pixels

class _QueueEnd:
    """The base of vkshare.core.queue_ends. `surfaces`: the device's handles, in the network's order."""

    def __init__(self, device: Device, cell: object, surfaces: tuple[Surface, ...]) -> None: ...
    @property
    def _address(self) -> int: ...
    @property
    def device(self) -> Any: ...
    @property
    def surfaces(self) -> tuple[Any, ...]: ...
    @property
    def is_closed(self) -> bool: ...

class Producer(_QueueEnd):
    """The end of a queue that surfaces go into."""

    def enqueue(self, surface: Any, metadata: Any = b"", wait: bool | str = True) -> bool: ...
    def flush(self, wait: bool = True) -> int: ...

class Consumer(_QueueEnd):
    """The end of a queue that surfaces come out of."""

    def dequeue(self, timeout: float | None = None) -> tuple[Any, bytes]: ...

def capsule(address: int, kind: str) -> object: ...  # kind: its type, such as "vks_drawable", or "vks_fence **"
def hide(object: object) -> object: ...  # a capsule with a reference that the garbage collector does not see
def deadline(timeout: float | None) -> int: ...  # ns of CLOCK_MONOTONIC; 0: test and return; TypeError, ValueError

class Swapchain:
    """The frames of a window or of a headless target: native/present/swapchain.h.

    acquire() calls _adopt(index, generation) where the image has no Surface, and
    _not_acquired(status, width, height, timeout) in place of an error.
    """

    @property
    def _address(self) -> int: ...

    _acquired_hook: Callable[..., None] | None
    _presenting_hook: Callable[..., None] | None
    _window_check: Callable[[], object] | None  # now and then while an acquire waits

    def __init__(self, device: Device, cell: object, frame_type: type[Frame], asks_server: bool = False) -> None: ...
    def present(self, frame: Frame) -> None: ...
    def _run(self, lists: Mapping[int, CommandList], timeout: float | None = None) -> None: ...
    # `lists`: the commands of an image at generation * 16 + index
    def _note_surface(self, index: int, generation: int, surface: Surface) -> None: ...

class Frame:
    """An image that was acquired. Made by acquire(); Frame(swapchain, width, height) makes one without an image."""

    @property
    def _address(self) -> int: ...  # of its vks_frame
    def __init__(self, swapchain: Swapchain, width: int, height: int) -> None: ...
    @property
    def swapchain(self) -> Any: ...
    @property
    def index(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_hidden(self) -> bool: ...
    def close(self) -> None:
        """Returns the frame without a present: the next acquire() hands the image out again. Idempotent."""

def dlpack(
    keep: object,
    address: int,
    device_type: int,
    device_id: int,
    dimensions: int,  # 1 to 3; a shape of fewer than 3 ends with 1, and its strides with 0
    code: int,
    bits: int,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],  # in elements
    read_only: bool | None,  # None: for a consumer of DLPack before 1.0
    /,
) -> object: ...
def dlpack_fields(
    capsule: object, /
) -> tuple[int, int, int, int, int, int, tuple[int, ...], tuple[int, ...] | None]: ...  # strides in elements
