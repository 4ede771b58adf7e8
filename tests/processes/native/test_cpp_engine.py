"""examples/cpp_engine: an engine in C++ that draws with its own VkDevice, in turns with Python."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import c_client
from support.c_client import Client, complaints
from support.tree_paths import ROOT

import vkshare as vks
from vkshare.util import library

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

EXAMPLE = ROOT / "examples" / "cpp_engine"
BACKGROUND, RED = (64, 128, 191, 255), (255, 0, 0, 255)
Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path, device: vks.Device, stack: ExitStack) -> Start:
    """Starts the engine under the validation layer, where there is one: ``start(acquire_key, release_key)``."""
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    c_client.cpp_compiler()
    is_checked = os.environ.get("VKSHARE_VALIDATION", "0") not in ("", "0")

    def one_more(*words: object) -> Client:
        layers = "VK_LAYER_KHRONOS_validation" if is_checked else ""
        return stack.enter_context(Client(c_client.program("cpp_engine"), tmp_path, *words, layers=layers))

    return one_more


def check_picture(surface: vks.Surface) -> None:
    pixels = surface.read().astype(int)
    height, width, _ = pixels.shape
    wanted = np.broadcast_to(BACKGROUND, pixels.shape).copy()
    wanted[height // 4 : height // 4 + height // 2, width // 4 : width // 4 + width // 2] = RED
    assert abs(pixels - wanted).max() <= 1  # 0.25, 0.5 and 0.75 lie between two codes


def check_end(engine: Client) -> None:
    engine.socket.close()
    status, out, err = engine.end()
    assert (status, complaints(out + err)) == (0, []), out + err
    assert "drawn\n" in out


@pytest.mark.rule("C4", "C9")
def test_an_engine_draws_into_a_surface_of_python(device: vks.Device, start: Start) -> None:
    for size in ((40, 24), (301, 77)):
        surface = device.create_surface(*size, tiling="optimal")
        with surface.access(0, 1):
            engine = start(1, 2)
            with surface.export() as descriptor:
                descriptor.send(engine.socket)
            device.submit(device.record().clear(surface, (0, 1, 0, 1)))
        with surface.access(2, 0, 30):
            check_picture(surface)
        check_end(engine)


@pytest.mark.rule("C4", "C5", "C9")
def test_python_opens_a_surface_of_an_engine(device: vks.Device, start: Start) -> None:
    engine = start(1, 2, "create")
    with vks.SurfaceDescriptor.recv(engine.socket, 30) as descriptor, device.open_surface(descriptor) as surface:
        assert (surface.shape, descriptor.name) == ((64, 64, 4), "C++ engine")
        with surface.access(0, 1, 30):
            assert not surface.read().any()
        with surface.access(2, 3, 30):
            check_picture(surface)
    check_end(engine)


@pytest.mark.rule("C9")
def test_an_engine_says_what_it_was_given_wrongly(device: vks.Device, start: Start) -> None:
    engine = start(1, 2)
    engine.socket.send(b"GET / HTTP/1.1\r\n\r\n" * 10)
    assert engine.end() == (1, "", "this is not a descriptor of vkshare\n")


@pytest.mark.rule("C9")
def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "c-api.md").read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S)
    example = "".join(path.read_text() for path in sorted(EXAMPLE.glob("*.?pp")))
    assert len(blocks) > 2
    assert [block for block in blocks if block not in example] == []


@pytest.mark.rule("C9")
def test_the_guides_python_side_lets_the_engine_draw(device: vks.Device, start: Start) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/guide.md").read_text(), re.M | re.S)
    (block,) = (block for block in blocks if "def let_it_draw" in block)
    there: dict[str, Any] = {"socket": socket}
    exec(block, there)
    surface = device.create_surface(16, 16)
    with surface.access(0, 1):
        pass
    there["let_it_draw"](surface, c_client.program("cpp_engine"))
    check_picture(surface)


@pytest.mark.rule("C9")
def test_the_example_has_at_most_60_lines_of_its_own() -> None:
    lines = (EXAMPLE / "cpp_engine.cpp").read_text().splitlines()
    assert len([line for line in lines if line.strip() and not line.strip().startswith("//")]) <= 60


GUARDS = """
#include <vkshare.hpp>
#include <vkshare.hpp>
int main()
{
    vks_device_info info{};
    vks::device device = vks::create_device(info), moved;
    moved = std::move(device);
    vks_image_info size{};
    size.width = size.height = 4;
    size.format = VKS_FORMAT_RGBA8_UNORM;
    vks::surface surface = vks::create_image(moved, size);
    vks::ownership turn(surface, 0, 1);
    vks::ownership other = std::move(turn);
    if (device || !moved || turn || !other || other.release() != VKS_OK)
        return 1;
    vks::surface_descriptor descriptor = vks::export_descriptor(surface);
    vks::surface again = vks::open_image(moved, descriptor);
    if (!descriptor || !again || descriptor->body.width != 4)
        return 2;
    size.format = 99;
#ifdef VKSHARE_NO_EXCEPTIONS
    return vks::create_image(moved, size) || vks_last_error()->status != VKS_BAD_VALUE ? 3 : 0;
#else
    try {
        vks::create_image(moved, size);
        return 3;
    } catch (const vks::error &error) {
        return error.status() != VKS_BAD_VALUE || std::string(error.what()) != "there is no format 99";
    }
#endif
}
"""


@pytest.mark.rule("C2")
@pytest.mark.parametrize("options", [[], ["-fno-exceptions", "-fno-rtti"], ["-DVKSHARE_NO_EXCEPTIONS"]])
@pytest.mark.parametrize("vulkan", [True, False], ids=["vulkan", "no vulkan"])
def test_the_guards_of_the_cpp_header_work(tmp_path: Path, options: list[str], vulkan: bool) -> None:
    compiler = c_client.cpp_compiler()
    source = tmp_path / "guards.cpp"
    source.write_text(GUARDS)
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options]
    headers = ["-isystem", str(ROOT / "native" / "third_party")] if vulkan else []
    made = [*library.compile_options(), *headers, str(source), "-o", str(tmp_path / "guards"), *library.link_options()]
    subprocess.run([*compiler, *strict, *made], check=True)
    assert subprocess.run([tmp_path / "guards"], check=False).returncode == 0
