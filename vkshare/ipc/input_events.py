"""Input events, with the names and fields of rendercanvas (its EventType)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_POINTER = ("x", "y", "button", "buttons", "modifiers", "ntouches")

# Event type -> the fields that it has, besides event_type and time_stamp.
FIELDS: dict[str, tuple[str, ...]] = {
    "resize": ("width", "height", "pixel_ratio"),
    "close": (),
    "pointer_down": _POINTER,
    "pointer_up": _POINTER,
    "pointer_move": _POINTER,
    "pointer_enter": _POINTER,
    "pointer_leave": _POINTER,
    "double_click": ("x", "y", "button", "buttons", "modifiers"),
    "wheel": ("dx", "dy", "x", "y", "buttons", "modifiers"),
    "key_down": ("key", "modifiers"),
    "key_up": ("key", "modifiers"),
    "char": ("char_str", "modifiers"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a window. Fields that its type does not have (see FIELDS) keep their defaults."""

    event_type: str  # a key of FIELDS
    time_stamp: float  # seconds, time.perf_counter()
    width: float = 0.0  # logical pixels; times pixel_ratio they are the framebuffer's
    height: float = 0.0
    pixel_ratio: float = 1.0
    x: float = 0.0  # logical pixels from the left
    y: float = 0.0  # logical pixels from the top
    button: int = 0  # 1 left, 2 right, 3 middle, 4 and more others; 0 none
    buttons: tuple[int, ...] = ()  # those that are down, sorted
    modifiers: tuple[str, ...] = ()  # of "Alt", "Control", "Meta", "Shift", sorted
    ntouches: int = 0  # GLFW knows no touch
    dx: float = 0.0  # 100 for a notch; positive is right
    dy: float = 0.0  # 100 for a notch; positive is down
    key: str = ""  # as KeyboardEvent.key of the web: "a", "A", "Escape", "ArrowLeft", ...
    char_str: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the event as a dict with the fields of its type only, which handlers for rendercanvas expect."""
        names = ("event_type", *FIELDS[self.event_type], "time_stamp")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        fields = "".join(f", {name}={getattr(self, name)!r}" for name in FIELDS[self.event_type])
        return f"Event({self.event_type!r}{fields})"


def event_of(fields: dict[str, Any]) -> Event:
    """Make the event whose as_dict() it is, and which another process has sent.

    Raises
    ------
    ValueError
        It is no such dict.
    """
    kind = fields.get("event_type")
    allowed = {"event_type", *FIELDS.get(kind, ()), "time_stamp"} if isinstance(kind, str) else set()
    if kind not in FIELDS or fields.keys() != allowed:
        raise ValueError(f"no event has the fields {', '.join(sorted(map(str, fields)))}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return Event(**values)
