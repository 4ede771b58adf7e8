"""Messages of the Vulkan validation layer: collected, and the known false ones of one layer version set aside."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filter:
    """A message that is known to be wrong."""

    message_id: str
    layer: str  # the version whose message it is: another version must be looked at anew
    pattern: str  # a regular expression that its text matches somewhere; "" for any
    why: str


# Every entry says what is reported, and why it is not so. Nothing else is ever set aside.
FILTERS: tuple[Filter, ...] = (
    Filter(
        "UNASSIGNED-CoreValidation-DrawState-InvalidImageLayout",
        "1.3.239",
        r"\[vkshare opened [^]]*\].*--instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED",
        # An opened image is taken from VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL. Its exporter's
        # transition was made on another VkDevice, and the layer does not take the acquiring barrier
        # as a statement of the layout. Images of our own are named without "opened".
        why="the layer does not know the layout in which an imported image was handed over",
    ),
    Filter(
        "VUID-VkImageViewCreateInfo-usage-02276",
        "1.3.239",
        r"with tiling VK_IMAGE_TILING_LINEAR does not support usage that includes VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT",
        # NVIDIA's linear formats have VK_FORMAT_FEATURE_2_LINEAR_COLOR_ATTACHMENT_BIT_NV, and the
        # extension is enabled.
        why="the layer does not know VK_NV_linear_color_attachment, which allows such views",
    ),
    Filter(
        "VUID-VkSemaphoreSignalInfo-value-03259",
        "1.3.239",
        r"must be less than value of any pending signal operation",
        # Signal a timeline 3 by a queue that also waits for 2 of it, vkDeviceWaitIdle, see the
        # counter at 3, signal 4 by the host: reported each time, never without the wait.
        # tests/rules/core/test_fence_machine.py checks the counters.
        why="the layer keeps a signal pending for ever where a queue waited for a value between two signals",
    ),
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    severity: str
    message_id: str
    text: str

    def __str__(self) -> str:
        return f"{self.severity} {self.message_id}: {self.text}"


class Collector:
    """A message sink of the Vulkan backend. Thread-safe: it is called on a thread of its own."""

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self._lock = threading.Lock()
        self._messages: list[Message] = []

    def __call__(self, severity: str, message_id: str, text: str) -> None:
        with self._lock:
            self._messages.append(Message(str(severity), message_id, text))

    def take(self) -> list[Message]:
        """The errors and warnings since the last call, without the known false ones."""
        from vkshare.backends import vulkan

        vulkan.flush_messages()  # they come on a thread of their own
        with self._lock:
            messages, self._messages = self._messages, []
        return [message for message in messages if is_failure(message, self._layer)]


def is_failure(message: Message, layer: str) -> bool:
    """Whether a test during which this message came has failed."""
    if message.severity.lower() not in ("error", "warning"):
        return False
    return not any(
        known.layer == layer and known.message_id == message.message_id and re.search(known.pattern, message.text)
        for known in FILTERS
    )
