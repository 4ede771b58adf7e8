"""The pytest plugin: fixtures over the adapters found, validation messages as failures, markers.

Loaded by pytest wherever vkshare is installed, so it imports nothing of vkshare until a test asks
for a device.

Fixtures
    vks_device, device   an open Device; a test that takes one runs once for each adapter found
    vks_open             callable: opens one more device on the same adapter; all are closed after the test
    vks_adapter          the adapter itself
Markers
    vks_gpu, vks_cuda, vks_display   a test that has one is skipped, with the reason, where a real GPU, CUDA or a
                                     display is missing
Environment
    VKSHARE_TEST_DRIVER  the one driver of this run, a key of DRIVERS; another value ends the run at its start
    VKSHARE_VALIDATION   1: devices are opened with the validation layer, and its messages fail the test
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vkshare import Adapter, Device
    from vkshare.testing.validation import Collector

_MARKERS = (
    'rule(*ids): the rules that this test checks, e.g. rule("K7", "X3")',
    "vks_gpu: needs a real GPU",
    "vks_cuda: needs CUDA",
    "vks_display: needs a display",
)
# The values of VKSHARE_TEST_DRIVER: the adapter's kind, a part of its name, and a part of its
# driver's name and version.
DRIVERS = {
    "cpu": ("cpu", "", ""),
    "gpu": ("gpu", "", ""),
    "lavapipe": ("software", "llvmpipe", ""),
    "lavapipe22": ("software", "llvmpipe", "22."),
    "lavapipe25": ("software", "llvmpipe", "25."),
    "swiftshader": ("software", "SwiftShader", ""),
}
_collector = pytest.StashKey["Collector"]()


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "")
    if driver and driver not in DRIVERS:
        allowed = ", ".join(DRIVERS)
        raise pytest.UsageError(f"VKSHARE_TEST_DRIVER is {driver!r}; allowed are {allowed}, and unset for all adapters")


# ---- adapters and devices ----------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vks_adapter" in metafunc.fixturenames:
        metafunc.parametrize("vks_adapter", _parameters(), indirect=True, scope="session")


def _parameters() -> list[Any]:
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "")
    try:
        from vkshare import adapters

        found = adapters("cpu" if driver == "cpu" else "auto")
    except Exception as error:
        return [_skipped(driver or "vkshare", f"vkshare cannot be used: {error}")]
    if not driver:
        return [pytest.param(adapter, id=_slug(adapter)) for adapter in found]
    best = [adapter for adapter in found if is_of(driver, adapter)][:1]
    there = ", ".join(f"{a.name}, {a.driver}" for a in found)
    return [pytest.param(a, id=driver) for a in best] or [_skipped(driver, f"no adapter of {driver}: {there}")]


def is_of(driver: str, adapter: Adapter) -> bool:
    """Whether VKSHARE_TEST_DRIVER=`driver` means this adapter."""
    kind, name, version = DRIVERS[driver]
    return adapter.kind == kind and name in adapter.name and version in str(adapter.driver)


def _skipped(driver: str, reason: str) -> Any:
    return pytest.param(None, id=driver, marks=pytest.mark.skip(reason=reason))


def _slug(adapter: Adapter) -> str:
    name = "cpu" if adapter.backend == "cpu" else adapter.name.split("(")[0]
    return re.sub(r"\W+", "-", name.lower()).strip("-")


@pytest.fixture(scope="session")
def vks_adapter(request: pytest.FixtureRequest) -> Adapter:
    """The adapter that this run of the test is on."""
    adapter: Adapter = request.param
    return adapter


@pytest.fixture
def vks_open(vks_adapter: Adapter) -> Iterator[Callable[..., Device]]:
    """Opens devices on the adapter: ``vks_open(name="")``, arguments as vkshare.open() has them."""
    import vkshare

    opened: list[Device] = []

    def open_one(**options: Any) -> Device:
        opened.append(vkshare.open(vks_adapter, **options))
        return opened[-1]

    yield open_one
    for device in reversed(opened):
        device.close()


@pytest.fixture
def vks_device(vks_open: Callable[..., Device]) -> Device:
    """An open device; closed after the test."""
    return vks_open(name="test")


@pytest.fixture
def device(vks_device: Device) -> Device:
    """The same as vks_device."""
    return vks_device


# ---- the validation layer ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _vks_validation(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first, so torn down last: what the layer says when a device is closed counts too."""
    if os.environ.get("VKSHARE_VALIDATION", "") in ("", "0"):
        yield
        return
    collector = _collect(request.config)
    if collector is not None:
        collector.take()  # what came between two tests belongs to none
    yield
    messages = collector.take() if collector is not None else []
    if messages:
        reported = "\n".join(f"  {message}" for message in messages[:20])
        pytest.fail(f"{len(messages)} messages of the validation layer:\n{reported}", pytrace=False)


def _collect(config: pytest.Config) -> Collector | None:
    """The session's collector, which listens from the first call on. None without the Vulkan backend."""
    known = config.stash.get(_collector, None)
    if known is not None:
        return known
    try:
        from vkshare.backends import vulkan
        from vkshare.testing.validation import Collector

        made = Collector(vulkan.validation_layer_version() or "")
        vulkan.add_message_sink(made)
    except Exception:
        return None  # no Vulkan here, so no messages; a device that wants the layer does not open
    config.stash[_collector] = made
    return made


# ---- markers -----------------------------------------------------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in (("vks_gpu", _no_gpu), ("vks_cuda", _no_cuda), ("vks_display", _no_display)):
        if item.get_closest_marker(marker) is not None and (reason := missing()):
            pytest.skip(reason)


def _no_gpu() -> str:
    from vkshare import adapters

    return "" if any(adapter.kind == "gpu" for adapter in adapters()) else "no real GPU was found"


def _no_cuda() -> str:
    try:
        from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return "cuda-bindings is not installed"
    try:
        (result,) = driver.cuInit(0)
    except Exception as error:  # a RuntimeError where there is no libcuda
        return f"CUDA's driver cannot be loaded: {error}"
    if int(result) != 0:
        return f"cuInit failed: {result}"
    _, count = driver.cuDeviceGetCount()
    return "" if count else "no CUDA device was found"


def _no_display() -> str:
    here = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return "" if here else "neither DISPLAY nor WAYLAND_DISPLAY is set"
