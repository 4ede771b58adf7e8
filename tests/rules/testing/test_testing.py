"""vkshare.testing itself: pictures compared, messages filtered, fixtures in the suite of another project."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import numpy as np
import pytest

from vkshare.testing import assert_images_close, assert_images_equal, plugin, validation

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def _pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKSHARE_TEST_PICTURES", str(tmp_path))


def test_equal_pictures_pass_and_write_nothing(tmp_path: Path) -> None:
    picture = np.arange(60, dtype=np.uint8).reshape(3, 5, 4)
    assert_images_equal(picture, picture.copy())
    assert not list(tmp_path.iterdir())


def test_a_difference_is_told_and_three_pictures_are_written(tmp_path: Path) -> None:
    expected = np.zeros((3, 5, 4), np.uint8)
    actual = expected.copy()
    actual[2, 1, 0] = 9
    with pytest.raises(AssertionError, match=r"1 of 15 pixels differ by more than 0, at most by 9; first at x 1, y 2"):
        assert_images_equal(actual, expected, "spot")
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["spot-actual", "spot-difference", "spot-expected"]


def test_the_files_are_named_after_the_test_by_default(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_images_equal(np.zeros((2, 2, 1), np.uint8), np.ones((2, 2, 1), np.uint8))
    assert any("test_the_files_are_named" in p.name for p in tmp_path.iterdir())


def test_a_tolerance_is_kept_to_the_bit() -> None:
    expected = np.full((4, 4, 4), 100, np.uint8)
    assert_images_close(expected + 2, expected, 2)
    with pytest.raises(AssertionError):
        assert_images_close(expected + 3, expected, 2)
    with pytest.raises(AssertionError):
        assert_images_close(expected - 3, expected, 2)


def test_a_fraction_of_the_pixels_may_differ() -> None:
    expected = np.zeros((10, 10, 4), np.uint8)
    actual = expected.copy()
    actual[0, :5] = 255
    assert_images_close(actual, expected, differing=0.05)
    with pytest.raises(AssertionError):
        assert_images_close(actual, expected, differing=0.049)


def test_packed_pixels_are_compared_by_channel() -> None:
    expected = np.full((2, 2, 1), 1 << 10, np.uint32)  # green 1, red 0
    assert_images_close(np.full((2, 2, 1), 1, np.uint32), expected, 1)
    with pytest.raises(AssertionError):
        assert_images_close(np.full((2, 2, 1), 2, np.uint32), expected, 1)


def test_nan_differs_from_all_and_infinity_equals_itself() -> None:
    infinite = np.full((2, 2, 4), np.inf, np.float32)
    assert_images_equal(infinite, infinite.copy())
    with pytest.raises(AssertionError):
        assert_images_close(np.full((2, 2, 4), np.nan, np.float32), np.zeros((2, 2, 4), np.float32), 10)


@pytest.mark.parametrize("other", [np.zeros((3, 5, 3), np.uint8), np.zeros((3, 5, 4), np.float32)])
def test_other_shapes_and_types_are_not_compared(other: np.ndarray) -> None:
    with pytest.raises(AssertionError, match="not to be compared"):
        assert_images_close(other, np.zeros((3, 5, 4), np.uint8), 1000)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float16", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_every_format_can_be_written_as_a_picture(tmp_path: Path, dtype: str, channels: int) -> None:
    if dtype == "uint32" and channels != 1:
        pytest.skip("packed pixels have one channel")
    expected = np.zeros((4, 4, channels), dtype)
    with pytest.raises(AssertionError):
        assert_images_equal(expected + 1, expected, "any")
    assert len(list(tmp_path.iterdir())) == 3


def test_only_known_false_messages_of_the_same_layer_are_set_aside() -> None:
    known = validation.FILTERS[0]
    false = "image [vkshare opened a] x --instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED"
    for layer, text, failures in (
        (known.layer, false, 0),
        ("1.3.275", false, 1),
        (known.layer, "image [vkshare b] x --instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED", 1),
    ):
        collector = validation.Collector(layer)
        collector("error", known.message_id, text)
        assert len(collector.take()) == failures
        assert collector.take() == []


def test_every_filter_says_why_and_for_which_layer() -> None:
    for known in validation.FILTERS:
        assert known.message_id
        assert known.layer.count(".") == 2
        assert len(known.why) > 20


def test_information_is_no_failure() -> None:
    collector = validation.Collector("1.3.239")
    collector("info", "loader", "hello")
    collector("warning", "perf", "careful")
    assert [m.severity for m in collector.take()] == ["warning"]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The suite of another project, on a machine without a Vulkan driver."""
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER", "VKSHARE_VALIDATION", "VKSHARE_TEST_DRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent")
    return pytester


def test_the_device_fixture_works_in_another_suite(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import pytest

        def test_paints(device, vks_open):
            assert device.backend == "cpu"
            assert vks_open(name="second").name == "second"

        @pytest.mark.rule("K1")
        @pytest.mark.vks_gpu
        def test_needs_a_gpu():
            raise AssertionError("there is none")

        def test_takes_no_device():
            pass
    """)
    result = suite.runpytest_subprocess("-v", "-rs", "--strict-markers")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*test_paints[[]cpu[]]*PASSED*", "*no real GPU was found*"])


def test_a_driver_that_is_not_there_skips_with_its_name(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKSHARE_TEST_DRIVER", "swiftshader")
    suite.makepyfile("def test_paints(device): raise AssertionError")
    result = suite.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no adapter of swiftshader: *"])


def test_a_driver_of_another_name_is_refused_with_those_that_are_allowed(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKSHARE_TEST_DRIVER", "lavapipe99")
    suite.makepyfile("def test_paints(device): pass")
    result = suite.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*VKSHARE_TEST_DRIVER is 'lavapipe99'; allowed are cpu, gpu, *swiftshader*"])


def test_a_driver_is_chosen_by_its_name_not_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[Any] = [
        Namespace(kind=kind, name=name, driver=driver)
        for kind, name, driver in (
            ("gpu", "NVIDIA H200", "nvidia 570.1"),
            ("software", "SwiftShader Device", "SwiftShader 5.0.0"),
            ("software", "llvmpipe (LLVM 19.1.7)", "Mesa 25.0.7"),
            ("cpu", "CPU", "vkshare"),
        )
    ]
    chosen = {name: [a.driver for a in there if plugin.is_of(name, a)] for name in plugin.DRIVERS}
    assert chosen == {
        "cpu": ["vkshare"],
        "gpu": ["nvidia 570.1"],
        "lavapipe": ["Mesa 25.0.7"],
        "lavapipe22": [],
        "lavapipe25": ["Mesa 25.0.7"],
        "swiftshader": ["SwiftShader 5.0.0"],
    }


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


def test_a_missing_display_and_a_missing_driver_of_cuda_are_skips_with_their_reasons(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings = suite.mkpydir("cuda").joinpath("bindings")
    bindings.mkdir()
    bindings.joinpath("__init__.py").touch()
    bindings.joinpath("driver.py").write_text("def cuInit(flags): raise RuntimeError('Failed to dlopen libcuda.so.1')")
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
    result.stdout.fnmatch_lines(["*Failed to dlopen libcuda*", "*neither DISPLAY nor WAYLAND_DISPLAY*"])


def test_a_validation_message_fails_the_test_that_caused_it(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKSHARE_VALIDATION", "1")
    suite.makepyfile("""
        from vkshare.testing import plugin, validation
        collector = validation.Collector("1.3.239")
        plugin._collect = lambda config: collector

        def test_clean(): pass
        def test_dirty(): collector("error", "VUID-vkX", "this is wrong")
        def test_clean_again(): pass
    """)
    result = suite.runpytest_subprocess()
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*1 messages of the validation layer*", "*error VUID-vkX: this is wrong*"])
