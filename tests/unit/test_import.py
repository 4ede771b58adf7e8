"""What importing loads, and which names are public."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import vkshare

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

PUBLIC = {
    "AbandonedError",
    "AcquireTimeout",
    "Adapter",
    "Buffer",
    "BufferDescriptor",
    "BufferView",
    "Capabilities",
    "ClosedError",
    "Color",
    "CommandList",
    "DescriptorError",
    "Device",
    "DeviceLostError",
    "DeviceMismatchError",
    "Fence",
    "FenceDescriptor",
    "Frame",
    "Format",
    "Headless",
    "InvalidCallError",
    "KeyedMutex",
    "NotOwnerError",
    "RemoteLostError",
    "VideoError",
    "StillDrawingError",
    "Submission",
    "Consumer",
    "PlaneView",
    "Producer",
    "Publication",
    "Published",
    "QueueDescriptor",
    "QueueFrame",
    "Receiver",
    "Sender",
    "SurfaceQueue",
    "buffer_pipe",
    "find",
    "open_published",
    "open_receiver",
    "pipe",
    "show",
    "Surface",
    "SurfaceDescriptor",
    "SurfaceLostError",
    "Swapchain",
    "UnsupportedError",
    "View",
    "VkshareError",
    "VulkanError",
    "WaylandSurface",
    "Window",
    "X11Window",
    "__version__",
    "adapters",
    "get_include",
    "open",
    "vulkan_requirements",
}


def run_python(code: str, **options: Any) -> str:
    """What a fresh interpreter prints."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_public_names_are_exactly_these_and_all_of_them_load() -> None:
    assert set(vars(vkshare)["__all__"]) == PUBLIC
    for name in PUBLIC:
        assert getattr(vkshare, name) is not None
    assert set(dir(vkshare)) >= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'vkshare' has no attribute 'nonsense'"):
        vkshare.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_importing_vkshare_loads_neither_numpy_nor_vulkan_nor_native_code() -> None:
    loaded = run_python("""
        import sys, vkshare
        print(sorted(m for m in sys.modules if m.split(".")[0] in ("numpy", "vulkan", "cffi", "glfw")
                     or m == "vkshare._native"))
    """)
    assert loaded.strip() == "[]"


def test_importing_the_testing_module_and_its_plugin_loads_no_native_code_starts_no_thread_and_opens_no_fd() -> None:
    reported = run_python("""
        import os, sys, threading
        import pytest
        fds = set(os.listdir("/proc/self/fd"))
        import vkshare.testing, vkshare.testing.plugin
        print(sorted(m for m in sys.modules if m.split(".")[0] in ("numpy", "vulkan", "cffi", "glfw")
                     or m == "vkshare._native"))
        print(threading.active_count(), sorted(set(os.listdir("/proc/self/fd")) - fds))
    """)
    assert reported.split("\n")[:2] == ["[]", "1 []"]


def test_vkshare_works_on_the_cpu_where_there_is_no_vulkan_loader() -> None:
    reported = run_python(
        """
        import sys
        class NoVulkan:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "vulkan":
                    raise OSError("Cannot find Vulkan SDK version")  # what PyPI's vulkan raises without libvulkan
        sys.meta_path.insert(0, NoVulkan())
        import vkshare as vks
        print([a.backend for a in vks.adapters()])
        with vks.open() as device:
            print(device.backend)
    """,
        env={"PATH": "/usr/bin:/bin", "VK_DRIVER_FILES": "/nonexistent"},
    )
    assert reported.split("\n")[:2] == ["['cpu']", "cpu"]


# ---- a checkout in which nothing was built ---------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that has the package's Python files without the C core, as a fresh clone has them."""
    package = Path(vkshare.__file__).parent
    shutil.copytree(package, tmp_path / "clone" / "vkshare", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path / "clone"


def fails_to_open(folder: Path, *also: Path) -> str:
    """The last line of a program that opens a device with these folders first on sys.path, and no other vkshare."""
    code = f"import sys; sys.path[:0] = {[str(folder), *map(str, also)]}; import vkshare; vkshare.open(backend='cpu')"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )
    assert result.returncode == 1
    return result.stderr.splitlines()[-1]


def test_a_checkout_without_its_core_says_what_it_is_and_how_to_build_it(checkout: Path) -> None:
    said = fails_to_open(checkout)
    assert said.startswith(
        f"ImportError: vkshare was imported from {checkout / 'vkshare'}, which holds its Python files"
    )
    assert "hides" not in said
    assert "make build" in said


def test_a_checkout_that_hides_the_installed_package_names_it_and_the_way_to_it(checkout: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    (installed / "vkshare").mkdir(parents=True)
    (installed / "vkshare" / "_native.abi3.so").touch()
    said = fails_to_open(checkout, installed)
    assert f"It hides the installed package in {installed / 'vkshare'}" in said
    assert "PYTHONSAFEPATH=1" in said


def test_the_version_is_the_packages() -> None:
    assert vkshare.__version__.count(".") == 2


def test_every_public_class_has_a_docstring() -> None:
    for name in PUBLIC - {"__version__"}:
        value = getattr(vkshare, name)
        assert value.__doc__, name
    assert importlib.import_module("vkshare").__doc__


@pytest.mark.parametrize(
    "package",
    [
        "vkshare",
        "vkshare.compositor",
        "vkshare.remote",
        "vkshare.server",
        "vkshare.video",
        "vkshare.view",
        "vkshare.vsync",
    ],
)
def test_each_line_of_a_stub_is_a_public_name_and_no_other_is(package: str) -> None:
    module = importlib.import_module(package)
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text()
    listed = [line.split()[-1] for line in stub.splitlines() if line.startswith("from ")]
    assert listed == list(dict.fromkeys(listed)), "a name stands twice"
    modules = [name for name in listed if isinstance(getattr(module, name), type(module))]
    assert {*listed} - {*modules} | ({"__version__"} if package == "vkshare" else set()) == set(module.__all__)
    assert {name for name in dir(module) if not name.startswith("__")} == {*listed}
