"""Input events of a viewer's windows, as a program takes them: within the bounds that a page's events have."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vkshare.errors import DescriptorError
from vkshare.ipc.input_events import FIELDS
from vkshare.ipc.viewer_events import InputMessage
from vkshare.window.events import Event, event_of

_MOST_TEXT = 300  # characters of an error


class _Stamped(msgspec.Struct, frozen=True):
    time_stamp: Annotated[float, Meta(ge=-1e12, le=1e12)]


def parse(data: bytes) -> Event:
    """Returns the event of a JSON text.

    Raises
    ------
    DescriptorError
        It is none, or a field is out of its bounds.
    """
    fields: Any = None
    try:
        fields = msgspec.json.decode(data)  # which refuses NaN and infinities
        if not isinstance(fields, dict):
            raise ValueError(f"the event is a {type(fields).__name__}; allowed is an object with the field event_type")
        if not isinstance(fields.get("event_type"), str):
            raise ValueError(f"event_type is {fields.get('event_type')!r}; allowed are {', '.join(FIELDS)}")
        event = event_of(fields)
        msgspec.convert(fields, _Stamped)
        if event.event_type != "close":
            own = {name: value for name, value in fields.items() if name != "time_stamp"}
            msgspec.convert({"type": "event"} | own, InputMessage)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = f"a malformed input event of the viewer: {_named(fields, str(error))}"
        raise DescriptorError(why[:_MOST_TEXT]) from None
    return event


def _named(fields: Any, why: str) -> str:
    """The error, with the field at which it is and the field's value."""
    at = re.search(r"`\$\.(\w+)", why)
    return why if at is None else f"{at[1]} is {str(fields[at[1]])[:60]!r}: {why}"
