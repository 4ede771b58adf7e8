"""An engine's device below a backend: what is checked, and what its capabilities leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vkshare.errors import UnsupportedError

pytestmark = pytest.mark.wheel


@pytest.fixture
def adopt(backend: Any) -> Callable[..., Any]:
    """Adopts the backend's own VkDevice, as if it were an engine's."""
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan import instance

    needed = vulkan.requirements()
    context = backend.context
    handles = {
        "instance": instance.get().handle,
        "physical_device": context.physical.handle,
        "device": context.device,
        "queue": context.queue,
        "queue_family": context.queue_family,
        "api_version": needed.api_version,
        "enabled_extensions": (*sorted(context.extensions), *instance.get().extensions),
        "features": needed.features,
    }

    def adopt_with(**changes: Any) -> Any:
        return vulkan.adopt(**{**handles, **changes})

    return adopt_with


def test_closing_an_adopted_device_leaves_the_engines_alone(backend: Any, adopt: Callable[..., Any]) -> None:
    adopted = adopt()
    adopted.close()
    adopted.close()
    backend.context.run(lambda commands: None)  # the VkDevice and its queue are as they were


def test_what_the_engine_did_not_enable_is_no_capability(backend: Any, adopt: Callable[..., Any]) -> None:
    from vkshare.backends import vulkan

    adopted = adopt(enabled_extensions=vulkan.requirements().device_extensions)
    can = adopted.adapter.capabilities
    assert can.tilings == backend.adapter.capabilities.tilings
    assert not can.export_timelines
    assert "host_pointer" not in can.surface_memory
    assert can.reasons["export_timelines"]
    assert can.reasons["host_pointer"]
    assert not adopted.native_handles()["export_timelines"]
    adopted.close()


def test_a_queue_family_that_is_not_there_or_cannot_draw_is_refused(
    backend: Any, adopt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vkshare.backends.vulkan.physical import PhysicalDevice

    count = len(backend.context.physical.queue_flags())
    with pytest.raises(ValueError, match=f"queue_family is {count}; .* families 0 to {count - 1}"):
        adopt(queue_family=count)
    monkeypatch.setattr(PhysicalDevice, "queue_flags", lambda _: [4, 7])  # transfer only; all
    with pytest.raises(UnsupportedError, match=r"family 0 .*cannot draw.*family 1"):
        adopt(queue_family=0)
