"""The pytest plugin: fixtures over the adapters found, validation messages as failures, markers.

Loaded by pytest wherever vkshare is installed, so it imports nothing of vkshare until a test asks
for a device, and each of its names begins with vks_ (rule E17).

Fixtures
    vks_device           an open Device; a test that takes one runs once for each adapter found
    vks_open             callable: opens one more device on the same adapter; all are closed after the test
    vks_adapter          the adapter itself
    vks_golden           compares a picture with its reference (golden_plugin.py)
    vks_kill, vks_delay, vks_device_lost     faults (fault_plugin.py)
    vks_link             callable: a simulated network link to an address (link_plugin.py)
Markers
    vks_gpu, vks_cuda, vks_display   a test that has one is skipped, with the reason, where a real GPU, CUDA or a
                                     display is missing
Options
    --vks-driver NAME             the one driver of this run, a key of drivers.DRIVERS; default: VKSHARE_TEST_DRIVER
    --vks-validation              devices are opened with the validation layer, and its messages fail the test;
                                  default: VKSHARE_VALIDATION=1
    --vks-update-goldens          new pictures become the references
    --vks-skips-are-failures      a test that this plugin would skip fails
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from vkshare.testing.drivers import DRIVERS, is_of, slug, way_to_get

if TYPE_CHECKING:
    from vkshare import Adapter, Device
    from vkshare.testing.validation import Collector

pytest_plugins = ["vkshare.testing.fault_plugin", "vkshare.testing.golden_plugin", "vkshare.testing.link_plugin"]
_MARKERS = (
    "vks_gpu: needs a real GPU",
    "vks_cuda: needs CUDA",
    "vks_display: needs a display",
)
_collector = pytest.StashKey["Collector"]()
_environment = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vkshare", "pictures and devices (vkshare)")
    group.addoption(
        "--vks-driver", metavar="NAME", help=f"run on this driver alone: {', '.join(DRIVERS)} (VKSHARE_TEST_DRIVER)"
    )
    group.addoption(
        "--vks-validation",
        action="store_true",
        help="open devices with the Vulkan validation layer; its messages fail the test (VKSHARE_VALIDATION=1)",
    )
    group.addoption(
        "--vks-update-goldens", action="store_true", help="take the pictures of this run as the new references"
    )
    group.addoption(
        "--vks-skips-are-failures",
        action="store_true",
        help="fail the tests that would be skipped because vkshare finds no GPU, no CUDA or no display",
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    driver = _driver(config)
    if driver and driver not in DRIVERS:
        source = "--vks-driver" if config.getoption("vks_driver") else "VKSHARE_TEST_DRIVER"
        allowed = ", ".join(DRIVERS)
        raise pytest.UsageError(f"{source} is {driver!r}; allowed are {allowed}, and unset for all adapters")
    if config.getoption("vks_validation"):  # programs that a test starts are validated too
        config.stash[_environment] = os.environ.get("VKSHARE_VALIDATION")
        os.environ["VKSHARE_VALIDATION"] = "1"
    if _is_validated():
        config.pluginmanager.register(_ValidationMessages(config), "vkshare-validation")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _environment not in config.stash:
        return
    before = config.stash[_environment]
    if before is None:
        os.environ.pop("VKSHARE_VALIDATION", None)
    else:
        os.environ["VKSHARE_VALIDATION"] = before


def _driver(config: pytest.Config) -> str:
    """Return the driver of the run; "" for all adapters."""
    return str(config.getoption("vks_driver") or os.environ.get("VKSHARE_TEST_DRIVER", ""))


def _is_validated() -> bool:
    return os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0")


# ---- adapters and devices ----------------------------------------------------------------------------------------


class _Missing:
    """Stands for an adapter in the parameters of a test that cannot run."""

    def __init__(self, reason: str, *, is_error: bool) -> None:
        self.reason = reason
        self.is_error = is_error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vks_adapter" in metafunc.fixturenames:
        parameters = _parameters(_driver(metafunc.config))
        metafunc.parametrize("vks_adapter", parameters, indirect=True, scope="session")


def _parameters(driver: str) -> list[Any]:
    try:
        from vkshare import adapters

        found = adapters("cpu" if driver == "cpu" else "auto")
    except Exception as error:
        return [_missing(driver or "vkshare", f"vkshare cannot be used: {error}", is_error=False)]
    if not driver:
        is_cpu_wanted = os.environ.get("VKSHARE_BACKEND") == "cpu"
        if _is_validated() and not is_cpu_wanted and all(adapter.backend == "cpu" for adapter in found):
            return [_missing("vkshare", _nothing_to_validate(), is_error=True)]
        return [pytest.param(adapter, id=_name(adapter)) for adapter in found]
    best = [adapter for adapter in found if is_of(driver, adapter)][:1]
    there = ", ".join(f"{a.name}, {a.driver}" for a in found)
    reason = f"no adapter of {driver}: found {there}; {way_to_get(driver)}"
    return [pytest.param(a, id=driver) for a in best] or [_missing(driver, reason, is_error=True)]


def _nothing_to_validate() -> str:
    return (
        "the validation layer checks Vulkan, and no Vulkan adapter was found: "
        f"{way_to_get('lavapipe')}; without the layer: --vks-driver cpu, or leave --vks-validation out"
    )


def _missing(name: str, reason: str, *, is_error: bool) -> Any:
    return pytest.param(_Missing(reason, is_error=is_error), id=name)


def _name(adapter: Adapter) -> str:
    return slug("cpu" if adapter.backend == "cpu" else adapter.name.split("(")[0])


@pytest.fixture(scope="session")
def vks_adapter(request: pytest.FixtureRequest) -> Adapter:
    """The adapter that this run of the test is on."""
    if isinstance(request.param, _Missing):
        if request.param.is_error:  # another driver in its place would make the run look green
            pytest.fail(request.param.reason, pytrace=False)
        _skip(request.config, request.param.reason)
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


# ---- the validation layer ----------------------------------------------------------------------------------------


class _ValidationMessages:
    """Hooks of a validated run. Other runs do not have them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        collector = _collect(self._config)
        if collector is not None:
            collector.take()  # what came between two tests belongs to none

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        yield  # fixtures end here: the layer's messages about a device that is closed count too
        collector = _collect(self._config)
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
            _skip(item.config, reason)


def _skip(config: pytest.Config, reason: str) -> NoReturn:
    if config.getoption("vks_skips_are_failures"):
        pytest.fail(f"skipped without --vks-skips-are-failures: {reason}", pytrace=False)
    pytest.skip(reason)


def _no_gpu() -> str:
    try:
        from vkshare import adapters

        return "" if any(adapter.kind == "gpu" for adapter in adapters()) else "no real GPU was found"
    except Exception as error:  # a driver or the loader is missing
        return f"vkshare cannot be used: {error}"


def _no_cuda() -> str:
    try:
        from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return "cuda-bindings is not installed"
    except Exception as error:  # an installation without the library that it loads
        return f"cuda-bindings cannot be loaded: {error}"
    try:
        (result,) = driver.cuInit(0)
        if int(result) != 0:
            return f"cuInit failed: {result}"
        _, count = driver.cuDeviceGetCount()
    except Exception as error:  # a RuntimeError where there is no libcuda
        return f"CUDA's driver cannot be loaded: {error}"
    return "" if count else "no CUDA device was found"


def _no_display() -> str:
    here = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return "" if here else "neither DISPLAY nor WAYLAND_DISPLAY is set"
