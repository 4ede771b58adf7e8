"""tools/sysroot: where the mirror comes from, and what the environment of a driver holds."""

from __future__ import annotations

import threading
from pathlib import Path

import debian
import layout
import pytest

pytestmark = pytest.mark.no_driver


@pytest.fixture
def system(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("VKSHARE_DEBIAN_MIRROR", raising=False)
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    return tmp_path


def test_the_mirror_of_one_line_sources_is_found(system):
    (system / "etc/apt/sources.list").write_text(
        "# deb http://old/debian buzz main\n"
        "deb [signed-by=/k.gpg] http://mirror/debian/ trixie main\n"
        "deb http://safe/debian-security trixie-security main\n"
    )
    assert debian.find_mirrors(system) == ("http://mirror/debian", "http://safe/debian-security")


def test_the_mirror_of_deb822_sources_is_found(system):
    (system / "etc/apt/sources.list.d/debian.sources").write_text("Types: deb\nURIs: http://mirror/debian\nSuites: x\n")
    assert debian.find_mirrors(system) == ("http://mirror/debian", "http://mirror/debian-security")


def test_the_mirror_list_of_a_cloud_image_is_found(system):
    (system / "etc/apt/sources.list.d/debian.sources").write_text("URIs: mirror+file:/etc/apt/mirrors/debian.list\n")
    main, security = debian.find_mirrors(system)
    assert main == "mirror+file:/etc/apt/mirrors/debian.list"
    assert security == "mirror+file:/etc/apt/mirrors/debian-security.list"


def test_a_system_of_another_distribution_is_told_what_to_set(system):
    (system / "etc/apt/sources.list").write_text("deb http://archive/ubuntu noble main\n")
    with pytest.raises(debian.SysrootError, match="VKSHARE_DEBIAN_MIRROR"):
        debian.find_mirrors(system)


def test_a_given_mirror_wins_over_the_system(system, monkeypatch):
    (system / "etc/apt/sources.list").write_text("deb http://archive/debian trixie main\n")
    monkeypatch.setenv("VKSHARE_DEBIAN_MIRROR", "http://mine/debian/")
    assert debian.find_mirrors(system) == ("http://mine/debian", "http://mine/debian-security")


@pytest.fixture
def sysroot(tmp_path, monkeypatch) -> layout.Sysroot:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "lacking").mkdir()
    return layout.Sysroot(tmp_path)


def test_each_driver_is_the_only_one_that_its_environment_shows(sysroot):
    shown = {driver: sysroot.environment(driver)["VK_DRIVER_FILES"] for driver in ("lavapipe25", "swiftshader", "cpu")}
    assert shown["lavapipe25"].endswith("lavapipe25/icd.json")
    assert shown["swiftshader"].endswith("swiftshader/icd.json")
    assert not Path(shown["cpu"]).exists()


def test_each_driver_goes_with_the_opengl_of_its_own_mesa(sysroot):
    (sysroot.root / "opengl22").mkdir()
    (sysroot.root / "opengl22" / "swrast_dri.so").touch()
    shown = {driver: sysroot.environment(driver) for driver in ("lavapipe25", "lavapipe22", "cpu")}
    opengl = {driver: Path(variables["__EGL_VENDOR_LIBRARY_FILENAMES"]) for driver, variables in shown.items()}
    assert {driver: path.parent.name for driver, path in opengl.items()} == {
        "lavapipe25": "opengl25",
        "lavapipe22": "opengl22",
        "cpu": "opengl25",
    }
    for driver, variables in shown.items():
        assert variables["LD_LIBRARY_PATH"] == str(opengl[driver].parent)
    assert [driver for driver, variables in shown.items() if "LIBGL_DRIVERS_PATH" in variables] == ["lavapipe22"]


def test_a_real_gpu_has_the_systems_own_vulkan_and_opengl(sysroot, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert set(sysroot.environment("gpu")) == {"VK_LAYER_PATH", "VK_LOADER_LAYERS_DISABLE"}


def test_libraries_that_the_system_lacks_come_before_an_inherited_path(sysroot, monkeypatch):
    (sysroot.root / "lacking" / "libvulkan.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{sysroot.root}/opengl22:{sysroot.root}/lacking::/opt/lib")
    assert sysroot.environment("cpu")["LD_LIBRARY_PATH"] == f"{sysroot.root}/opengl25:{sysroot.root}/lacking:/opt/lib"
    assert sysroot.environment("gpu")["LD_LIBRARY_PATH"] == f"{sysroot.root}/lacking:/opt/lib"


def test_no_library_is_away_while_the_links_are_made_again(sysroot, monkeypatch):
    present: set[str] = set()
    monkeypatch.setattr(layout, "_system_sonames", lambda: present)
    for part in ("loader", "libraries"):
        (sysroot.root / part).mkdir()
        (sysroot.root / part / f"lib{part}.so.1").touch()
    sysroot._link_lacking()
    stops, missed = threading.Event(), []

    def look() -> None:
        while not stops.is_set():
            if not (sysroot.root / "lacking" / "libloader.so.1").exists():
                missed.append(1)

    looks = threading.Thread(target=look)
    looks.start()
    for _ in range(300):
        sysroot._link_lacking()
    stops.set()
    looks.join()
    assert not missed
    present.add("libloader.so.1")
    sysroot._link_lacking()
    assert [path.name for path in (sysroot.root / "lacking").iterdir()] == ["liblibraries.so.1"]


def test_an_unknown_tool_is_refused_with_those_that_are_there(sysroot):
    (sysroot.root / "tools").mkdir()
    (sysroot.root / "tools" / "spin").touch()
    with pytest.raises(debian.SysrootError, match="'glslc'; it has spin"):
        sysroot.tool("glslc")
