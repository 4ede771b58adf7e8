"""What the tests of the fault layer need: a driver to stand before, and where to present."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import private_displays
from support.fault_layer import run_with_faults

import vkshare as vks


@pytest.fixture
def run(vks_adapter: vks.Adapter) -> Callable[..., Any]:
    """run_with_faults() without the validation layer: these tests break rules on purpose."""
    if vks_adapter.backend != "vulkan":
        pytest.skip("a Vulkan layer stands before Vulkan drivers only")

    def run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        env = {"VKSHARE_VALIDATION": "0", **options.pop("env", {})}
        return run_with_faults(function, *arguments, env=env, **options)

    return run


@pytest.fixture(scope="session")
def _display() -> Iterator[Callable[[], dict[str, str]]]:
    """The environment of an X server, started when first asked for."""
    with contextlib.ExitStack() as stack:
        kept: list[dict[str, str]] = []

        def get() -> dict[str, str]:
            if not kept:
                environment = stack.enter_context(private_displays.xvfb(window_manager=False)).environment
                kept.append(
                    {name: environment[name] for name in ("DISPLAY", "XDG_SESSION_TYPE") if name in environment}
                )
            return kept[0]

        yield get


@pytest.fixture
def present(run: Callable[..., Any], _display: Callable[[], dict[str, str]]) -> Callable[..., Any]:
    """The same for functions that present: to a headless surface, or to a window where the driver has no such."""
    from vkshare.backends.vulkan.api import global_functions, text

    found = global_functions().list("vkEnumerateInstanceExtensionProperties", None)
    headless = any(text(e.extensionName) == "VK_EXT_headless_surface" for e in found)
    env = {} if headless else _display()
    return lambda *arguments, **options: run(*arguments, env={**env, **options.pop("env", {})}, **options)
