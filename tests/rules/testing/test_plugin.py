"""The pytest plugin in the suite of another project: its names, markers, options and skips."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace as Namespace
from typing import Any

import pytest

from vkshare.testing import drivers

pytest_plugins = ["support.other_suites"]
pytestmark = pytest.mark.program

NEEDS_A_GPU = """
    import pytest

    @pytest.mark.vks_gpu
    def test_needs_a_gpu(): raise AssertionError("there is none")
"""


# ---- projects that do not use it ---------------------------------------------------------------------------------


@pytest.mark.rule("E17")
def test_every_name_of_the_plugin_has_its_prefix(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_nothing(): pass")
    fixtures = suite.runpytest_subprocess("--fixtures", "-v").stdout.str()
    ours = re.findall(r"^(\w+).* -- \S*vkshare/testing/", fixtures, re.MULTILINE)
    assert {"vks_device", "vks_open", "vks_adapter"} <= set(ours)
    assert all(name.startswith("vks_") for name in ours), ours
    listed = suite.runpytest_subprocess("--markers").stdout.str()
    markers = {name for name in re.findall(r"^@pytest\.mark\.(\w+)", listed, re.MULTILINE) if "vks" in name}
    assert markers == {"vks_gpu", "vks_cuda", "vks_display"}
    assert "pytest.mark.rule" not in listed


@pytest.mark.rule("E17")
def test_markers_of_other_projects_are_left_alone(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nmarkers =\n  gpu: mine\n  cuda: mine\n  display: mine")
    suite.makepyfile("""
        import pytest

        @pytest.mark.gpu
        def test_a(): pass

        @pytest.mark.cuda
        def test_b(): pass

        @pytest.mark.display
        def test_c(): pass
    """)
    suite.runpytest_subprocess("--strict-markers").assert_outcomes(passed=3)


@pytest.mark.rule("E17")
def test_a_suite_that_uses_nothing_of_it_sees_no_fixture_and_loads_nothing_of_vkshare(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile("""
        import sys

        def test_nothing(request):
            assert request.fixturenames == ["request"]
            loaded = {name for name in sys.modules if name.split(".")[0] in ("numpy", "PIL", "vulkan")}
            assert not loaded
            assert "vkshare._native" not in sys.modules
    """)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plug-ins load what they like
    suite.runpytest_subprocess("-p", "vkshare.testing.plugin", "--vks-skips-are-failures").assert_outcomes(passed=1)


@pytest.mark.rule("E17", "E18")
def test_skips_of_other_projects_stay_skips(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import pytest

        @pytest.mark.skip(reason="mine")
        def test_a(): raise AssertionError

        def test_b(): pytest.skip("mine too")
    """)
    suite.runpytest_subprocess("--vks-skips-are-failures").assert_outcomes(skipped=2)


# ---- markers -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("E17")
def test_the_device_fixture_works_in_another_suite(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import pytest

        def test_paints(vks_device, vks_open):
            assert vks_device.backend == "cpu"
            assert vks_open(name="second").name == "second"

        @pytest.mark.vks_gpu
        def test_needs_a_gpu():
            raise AssertionError("there is none")

        def test_takes_no_device():
            pass
    """)
    result = suite.runpytest_subprocess("-v", "-rs", "--strict-markers")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*test_paints[[]cpu[]]*PASSED*", "*no real GPU was found*"])


@pytest.mark.rule("E17")
@pytest.mark.parametrize(
    ("bindings", "reason"),
    [
        ("def cuInit(flags): raise RuntimeError('Failed to dlopen libcuda.so.1')", "Failed to dlopen libcuda"),
        ("def cuInit(flags): return (100,)", "cuInit failed: 100"),
        ("def cuInit(flags): return (0,)\ndef cuDeviceGetCount(): raise OSError('gone')", "gone"),
        ("raise OSError('libnvrtc.so is missing')", "libnvrtc.so is missing"),
    ],
)
def test_a_missing_display_and_a_missing_driver_of_cuda_are_skips_with_their_reasons(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, bindings: str, reason: str
) -> None:
    folder = suite.mkpydir("cuda").joinpath("bindings")
    folder.mkdir()
    folder.joinpath("__init__.py").touch()
    folder.joinpath("driver.py").write_text(bindings)
    monkeypatch.setenv("PYTHONPATH", str(suite.path), prepend=os.pathsep)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    suite.makepyfile("""
        import pytest

        @pytest.mark.vks_cuda
        def test_b(): raise AssertionError

        @pytest.mark.vks_display
        def test_c(): raise AssertionError
    """)
    result = suite.runpytest_subprocess("-rs", "--strict-markers")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines([f"*{reason}*", "*neither DISPLAY nor WAYLAND_DISPLAY*"])


@pytest.mark.rule("E17")
def test_a_vkshare_that_cannot_be_used_skips_what_is_marked(suite: pytest.Pytester) -> None:
    suite.makeconftest("""
        import vkshare

        def fails(*_): raise vkshare.UnsupportedError("Vulkan", "the loader is broken")

        vkshare.adapters = fails
    """)
    suite.makepyfile(NEEDS_A_GPU + "\n    def test_paints(vks_device): raise AssertionError")
    result = suite.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*vkshare cannot be used: Vulkan is not supported: the loader is broken*"])


@pytest.fixture
def driver_files() -> str:
    """VK_DRIVER_FILES of this run, which `suite` replaces."""
    return os.environ.get("VK_DRIVER_FILES", "")


# ---- options -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("E18")
def test_a_driver_that_is_not_there_is_an_error_with_the_way_to_get_it(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile("def test_paints(vks_device): pass\ndef test_takes_no_device(): pass")
    for driver, way in (("swiftshader", "vk_swiftshader_icd.json"), ("lavapipe25", "mesa-vulkan-drivers")):
        result = suite.runpytest_subprocess("--vks-driver", driver)
        result.assert_outcomes(errors=1, passed=1)
        result.stdout.fnmatch_lines([f"*no adapter of {driver}: found vkshare CPU*{way}*"])
    monkeypatch.setenv("VKSHARE_TEST_DRIVER", "swiftshader")
    suite.runpytest_subprocess().assert_outcomes(errors=1, passed=1)
    suite.runpytest_subprocess("--vks-driver", "cpu").assert_outcomes(passed=2)


@pytest.mark.rule("E18")
def test_a_driver_of_another_name_is_refused_with_those_that_are_allowed(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile("def test_paints(vks_device): pass")
    result = suite.runpytest_subprocess("--vks-driver", "lavapipe98")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vks-driver is 'lavapipe98'; allowed are cpu, gpu, *swiftshader*"])
    monkeypatch.setenv("VKSHARE_TEST_DRIVER", "lavapipe99")
    result = suite.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*VKSHARE_TEST_DRIVER is 'lavapipe99'; allowed are cpu, gpu, *swiftshader*"])


@pytest.mark.rule("E18")
def test_validation_without_a_driver_or_a_layer_is_an_error_with_the_way_to_get_it(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_paints(vks_device): pass")
    result = suite.runpytest_subprocess("--vks-validation")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no Vulkan adapter was found: install*mesa-vulkan-drivers*--vks-driver cpu*"])
    suite.runpytest_subprocess("--vks-validation", "--vks-driver", "cpu").assert_outcomes(passed=1)


@pytest.mark.rule("E18")
def test_validation_is_for_the_run_and_the_programs_that_it_starts(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import os

        def test_is_on(pytestconfig):
            assert os.environ["VKSHARE_VALIDATION"] == "1"
            assert pytestconfig.pluginmanager.has_plugin("vkshare-validation")
    """)
    suite.runpytest_subprocess("--vks-validation").assert_outcomes(passed=1)
    suite.runpytest_inprocess("--vks-validation").assert_outcomes(passed=1)
    assert "VKSHARE_VALIDATION" not in os.environ
    suite.runpytest_subprocess().assert_outcomes(failed=1)


@pytest.mark.rule("E18")
@pytest.mark.every_driver
def test_a_layer_that_is_not_installed_is_an_error_with_the_way_to_get_it(
    driver_files: str, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, vks_adapter: Any
) -> None:
    if vks_adapter.backend != "vulkan":
        pytest.skip("the layer checks Vulkan alone")
    monkeypatch.setenv("VK_DRIVER_FILES", driver_files)
    monkeypatch.setenv("VK_LAYER_PATH", "/nonexistent")
    suite.makepyfile("def test_paints(vks_device): pass")
    result = suite.runpytest_subprocess("--vks-validation")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*finds no VK_LAYER_KHRONOS_validation; install vulkan-validationlayers*"])


@pytest.mark.rule("E18")
def test_skips_of_the_plugin_can_be_failures(suite: pytest.Pytester) -> None:
    suite.makepyfile(NEEDS_A_GPU)
    suite.runpytest_subprocess().assert_outcomes(skipped=1)
    result = suite.runpytest_subprocess("--vks-skips-are-failures")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no real GPU was found*"])
    suite.runpytest_subprocess("-n2", "--vks-skips-are-failures").stdout.fnmatch_lines(["*no real GPU was found*"])


@pytest.mark.rule("E18")
def test_a_validation_message_fails_the_test_that_caused_it(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        from vkshare.testing import plugin, validation
        collector = validation.Collector("1.3.239")
        plugin._collect = lambda config: collector

        def test_clean(): pass
        def test_dirty(): collector("error", "VUID-vkX", "this is wrong")
        def test_clean_again(): pass
    """)
    result = suite.runpytest_subprocess("--vks-validation")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*1 messages of the validation layer*", "*error VUID-vkX: this is wrong*"])


# ---- names of drivers --------------------------------------------------------------------------------------------


def adapter(kind: str, name: str, driver: str) -> Any:
    return Namespace(kind=kind, name=name, driver=driver, backend="cpu" if kind == "cpu" else "vulkan")


THERE = [
    adapter("gpu", "NVIDIA H200", "NVIDIA 570.86.15"),
    adapter("software", "SwiftShader Device (Subzero)", "SwiftShader driver"),
    adapter("software", "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)"),
    adapter("cpu", "vkshare CPU", "vkshare rasteriser, x86_64"),
]


@pytest.mark.rule("E18")
def test_a_driver_is_chosen_by_its_name_not_by_its_place() -> None:
    chosen = {name: [a.kind for a in THERE if drivers.is_of(name, a)] for name in drivers.DRIVERS}
    software = ["software"]
    assert chosen == {
        "cpu": ["cpu"],
        "gpu": ["gpu"],
        "lavapipe": software,
        "lavapipe22": [],
        "lavapipe25": software,
        "swiftshader": software,
    }


def test_every_driver_has_a_way_to_get_it() -> None:
    assert all(len(drivers.way_to_get(name)) > 10 for name in drivers.DRIVERS)


@pytest.mark.rule("E19")
def test_the_levels_of_an_adapter_go_from_itself_to_its_driver() -> None:
    assert [drivers.levels(each) for each in THERE] == [
        ("nvidia-h200", "nvidia570", "nvidia", "gpu"),
        ("swiftshader-device-subzero", "swiftshader"),
        ("llvmpipe-llvm-15-0-6-256-bits", "lavapipe25", "lavapipe"),
        ("vkshare-cpu", "cpu"),
    ]
