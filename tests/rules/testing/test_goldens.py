"""Pictures against their references: how they are judged, which reference is taken, what an approval writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.testing import failures, picture_files
from vkshare.testing.approval import Approval, ApprovalError
from vkshare.testing.failures import Failure
from vkshare.testing.goldens import Golden, GoldenRun
from vkshare.testing.judging import Way

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("E19")]

LAVAPIPE: Any = Namespace(kind="software", name="llvmpipe (256 bits)", driver="llvmpipe Mesa 25.0.7", backend="vulkan")
OLDER: Any = Namespace(kind="software", name="llvmpipe (128 bits)", driver="llvmpipe Mesa 22.3.6", backend="vulkan")
CPU: Any = Namespace(kind="cpu", name="vkshare CPU", driver="vkshare rasteriser", backend="cpu")


class Project:
    """A project with goldens, and its runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.goldens = root / "tests" / "goldens"
        self.results = root / "build" / "results"
        self.begin()

    def begin(self, *, updates: bool = False) -> None:
        self.run = GoldenRun(self.root, self.results, updates=updates)

    def judge(self, picture: Any, adapter: Any = None, name: str = "picture", test: str = "", **way: Any) -> None:
        test = test or f"tests/test_a.py::test_b[{adapter and adapter.name}]"
        Golden(self.run, test, self.goldens, adapter)(picture, name, **way)

    def fails(self, picture: Any, adapter: Any = None, name: str = "picture", **way: Any) -> str:
        with pytest.raises(AssertionError) as raised:
            self.judge(picture, adapter, name, **way)
        return str(raised.value)

    def approve(self, level: str = "auto") -> dict[str, bool]:
        """Return each reference, and whether it was there before for a level that inherits it."""
        self.run.finish()
        approved = Approval(self.results, self.root, level).run(failures.read(self.results))
        return {each.path.relative_to(self.goldens).as_posix(): each.is_inherited for each in approved}

    def files(self) -> set[str]:
        return {path.relative_to(self.goldens).as_posix() for path in self.goldens.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def grey(level: float, dtype: str = "uint8", channels: int = 4) -> np.ndarray:
    return np.full((8, 10, channels), level, dtype)


# ---- judging -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float16", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_every_format_is_kept_without_loss(project: Project, dtype: str, channels: int) -> None:
    if dtype == "uint32" and channels != 1:
        pytest.skip("packed pixels have one channel")
    most = {"uint8": 255, "uint32": 2**32 - 1}.get(dtype, 1.5)
    picture = np.linspace(0, most, 80 * channels).reshape(8, 10, channels).astype(dtype)
    assert "has no reference in tests/goldens" in project.fails(picture)
    suffix = "png" if dtype == "uint8" and channels != 2 else "npy"
    assert project.approve() == {f"picture.{suffix}": False}
    project.begin()
    project.judge(picture)
    changed = picture.copy()
    changed[3, 4, 0] = 7
    assert "1 of 80 pixels differ by more than 0" in project.fails(changed)
    assert "first at x 4, y 3" in project.fails(changed)


def test_a_picture_of_another_type_or_shape_is_a_difference(project: Project) -> None:
    project.fails(grey(1))
    project.approve()
    project.begin()
    assert "(8, 10, 4) of float32, the reference (8, 10, 4) of uint8" in project.fails(grey(1, "float32"))
    assert "(8, 9, 4) of uint8, the reference (8, 10, 4) of uint8" in project.fails(grey(1)[:, 1:], name="picture")


def test_a_tolerance_and_a_fraction_of_pixels_are_kept() -> None:
    wanted = grey(100)
    assert Way(tolerance=2).judge(wanted + 2, wanted).is_close
    assert not Way(tolerance=2).judge(wanted + 3, wanted).is_close
    spotted = wanted.copy()
    spotted[0, :4] = 255  # 4 of 80 pixels
    assert Way(differing=0.05).judge(spotted, wanted).is_close
    assert not Way(differing=0.049).judge(spotted, wanted).is_close
    nan = np.full((8, 10, 4), np.nan, np.float32)
    assert not Way(tolerance=1).judge(nan, nan.copy()).is_close


def photograph(shape: tuple[int, ...] = (48, 64, 4)) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("kind", ["uint8", "float32", "packed"])
def test_ssim_and_flip_pass_small_differences_and_fail_large_ones(kind: str) -> None:
    pytest.importorskip("skimage")
    pytest.importorskip("flip_evaluator")
    wanted = photograph() // 2
    near, far = wanted.copy(), wanted.copy()
    near[5, 5] += 2
    far[:, :32] = 255 - far[:, :32]
    pictures = [wanted, near, far]
    if kind == "float32":
        pictures = [each / np.float32(255) for each in pictures]
    if kind == "packed":
        pictures = [each.copy().view("<u4") for each in pictures]
    wanted, near, far = pictures
    for way in (Way(ssim=0.99), Way(flip=0.02)):
        assert way.judge(near, wanted).is_close, way.judge(near, wanted).text
        judged = way.judge(far, wanted)
        assert not judged.is_close
        assert judged.sizes is not None
        assert judged.sizes[:, :28].mean() > 5 * judged.sizes[:, 40:].mean()


def test_ssim_is_that_of_scikit_image() -> None:
    metrics = pytest.importorskip("skimage.metrics")
    wanted = photograph()
    got = np.clip(wanted.astype(int) + 9, 0, 255).astype(np.uint8)
    got[:, :, 3] = wanted[:, :, 3]  # a channel that is equal is not computed, and counts as 1
    judged = Way(ssim=1).judge(got, wanted)
    expected = metrics.structural_similarity(wanted, got, channel_axis=2, data_range=255)
    assert float(re.findall(r"SSIM is ([\d.]+)", judged.text)[0]) == pytest.approx(expected, abs=1e-4)


def test_flip_sees_a_difference_of_alpha_and_ssim_takes_pictures_of_three_pixels() -> None:
    pytest.importorskip("flip_evaluator")
    pytest.importorskip("skimage")
    black = grey(0)
    opaque = black.copy()
    opaque[:, :, 3] = 255
    assert not Way(flip=0.1).judge(opaque, black).is_close  # equal over black, not over white
    assert not Way(ssim=0.9).judge(grey(200)[:3, :3], grey(0)[:3, :3]).is_close
    with pytest.raises(ValueError, match="SSIM needs 3 pixels in each direction; the picture has 2x3"):
        Way(ssim=0.9).judge(grey(200)[:3, :2], grey(0)[:3, :2])


@pytest.mark.parametrize(
    ("way", "module", "extra"), [({"ssim": 0.9}, "skimage.metrics", "ssim"), ({"flip": 0.1}, "flip_evaluator", "flip")]
)
def test_a_missing_library_is_an_error_that_names_its_extra_also_for_equal_pictures(
    monkeypatch: pytest.MonkeyPatch, way: dict[str, float], module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(vks.UnsupportedError, match=rf"pip install 'vkshare\[{extra}\]'"):
        Way(**way).judge(grey(1), grey(1))


def test_a_missing_pillow_is_an_error_that_names_its_extra(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(vks.UnsupportedError, match=r"pip install 'vkshare\[testing\]'"):
        project.judge(grey(1))


@pytest.mark.parametrize(
    "way", [{"ssim": 0.9, "flip": 0.1}, {"tolerance": 1, "ssim": 0.9}, {"ssim": 1.2}, {"flip": -1}, {"tolerance": -1},
            {"differing": 1}, {"ssim": 0.9, "differing": 0.1}]
)  # fmt: skip
def test_two_ways_or_a_wrong_limit_are_refused(project: Project, way: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"allowed|one way|goes with"):
        project.judge(grey(1), **way)


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "-a"])
def test_a_name_that_leads_to_another_folder_is_refused(project: Project, name: str) -> None:
    with pytest.raises(ValueError, match="allowed are letters"):
        project.judge(grey(1), name=name)


def test_a_name_is_used_once_in_a_test_and_only_pictures_are_judged(project: Project) -> None:
    golden = Golden(project.run, "test", project.goldens, None)
    with pytest.raises(AssertionError):
        golden(grey(1), "a")
    with pytest.raises(ValueError, match="a second time"):
        golden(grey(1), "a")
    with pytest.raises(ValueError, match="a picture is"):
        golden(np.zeros((2, 2, 2, 2), np.uint8), "b")


# ---- references --------------------------------------------------------------------------------------------------


def test_the_reference_is_the_adapters_then_the_drivers_then_any(project: Project) -> None:
    folders = ["", "lavapipe", "lavapipe25", "llvmpipe-256-bits"]
    for value, folder in enumerate(folders):
        picture_files.save(project.goldens / folder / "picture.png", grey(value))
        project.judge(grey(value), LAVAPIPE)
        project.judge(grey(min(value, 1)), OLDER)  # which inherits from "lavapipe" alone
        project.judge(grey(0), CPU)
        assert "differs from tests/goldens/picture.png" in project.fails(grey(9), CPU)
    assert "differs from tests/goldens/llvmpipe-256-bits/picture.png" in project.fails(grey(2), LAVAPIPE)
    project.judge(grey(0))


# ---- approvals ---------------------------------------------------------------------------------------------------


def test_drivers_that_agree_share_a_reference_and_those_that_differ_get_their_own(project: Project) -> None:
    project.fails(grey(1), CPU)
    project.fails(grey(1), LAVAPIPE)
    project.fails(grey(2), OLDER)
    project.approve()
    assert project.files() == {"picture.png", "lavapipe22/picture.png"}, "most of them draw the picture for all"
    project.begin()
    for picture, adapter in ((grey(1), CPU), (grey(1), LAVAPIPE), (grey(2), OLDER)):
        project.judge(picture, adapter)


def test_a_reference_that_other_drivers_agree_with_is_kept(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    project.judge(grey(1), CPU)
    project.fails(grey(2), LAVAPIPE)
    assert project.approve() == {"lavapipe/picture.png": False}
    project.begin()
    project.judge(grey(1), CPU)
    project.judge(grey(2), LAVAPIPE)
    assert project.files() == {"picture.png", "lavapipe/picture.png"}


def test_a_new_reference_comes_before_no_other_that_is_in_use(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    project.judge(grey(1), OLDER)
    project.fails(grey(2), LAVAPIPE)
    assert project.approve() == {"lavapipe25/picture.png": False}, "OLDER would inherit from lavapipe"
    project.begin()
    project.judge(grey(1), OLDER)
    project.judge(grey(2), LAVAPIPE)


def test_a_reference_that_nothing_agrees_with_is_replaced(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    project.fails(grey(2), LAVAPIPE)
    assert project.approve() == {"picture.png": False}
    assert project.files() == {"picture.png"}
    assert failures.read(project.results) == []


def test_a_picture_that_would_be_inherited_has_no_file(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    picture_files.save(project.goldens / "lavapipe25" / "picture.png", grey(2))
    project.judge(grey(1), CPU)
    project.fails(grey(1), LAVAPIPE)
    assert project.approve() == {"picture.png": True}
    assert project.files() == {"picture.png"}


@pytest.mark.parametrize(
    ("level", "file"),
    [
        ("any", "picture.png"),
        ("driver", "lavapipe25/picture.png"),
        ("adapter", "llvmpipe-256-bits/picture.png"),
        ("lavapipe", "lavapipe/picture.png"),
    ],
)
def test_an_approval_for_a_level_writes_there(project: Project, level: str, file: str) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    picture_files.save(project.goldens / "llvmpipe-256-bits" / "picture.png", grey(2))
    project.fails(grey(3), LAVAPIPE)
    assert project.approve(level) == {file: False}
    assert project.files() == {"picture.png", file}, "no older file may hide the new one"
    project.begin()
    project.judge(grey(3), LAVAPIPE)


def test_a_reference_of_another_type_is_replaced(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    project.fails(grey(0.5, "float32"))
    assert project.approve() == {"picture.npy": False}
    assert project.files() == {"picture.npy"}


def test_two_pictures_for_one_reference_are_refused(project: Project) -> None:
    project.fails(grey(1), test="tests/test_a.py::test_1")
    project.fails(grey(2), test="tests/test_a.py::test_2")
    with pytest.raises(ApprovalError, match=r"differs from another picture for the same reference.*two names"):
        project.approve()


def test_an_unknown_level_and_a_record_that_leads_out_of_the_root_are_refused(project: Project, tmp_path: Path) -> None:
    project.fails(grey(1), LAVAPIPE)
    with pytest.raises(ApprovalError, match="no level 'nvidia'; allowed are auto, any, driver, adapter, llvmpipe-256-"):
        project.approve("nvidia")
    (record,) = project.results.glob(failures.RECORDS)
    record.write_text(record.read_text().replace("tests/goldens", "../goldens"))
    with pytest.raises(ApprovalError, match="is not in"):
        project.approve()
    assert not (tmp_path.parent / "goldens").exists()


def test_a_run_that_updates_takes_over_what_differs_and_keeps_what_is_close_enough(project: Project) -> None:
    picture_files.save(project.goldens / "close.png", grey(1))
    project.begin(updates=True)
    project.judge(grey(2), name="close", tolerance=1)
    project.judge(grey(3), name="new")
    remaining, approved = project.run.finish()
    assert (remaining, [each.failure.name for each in approved]) == ([], ["new"])
    assert (picture_files.load(project.goldens / "close.png") == 1).all()
    assert (picture_files.load(project.goldens / "new.png") == 3).all()


# ---- results -----------------------------------------------------------------------------------------------------


def test_a_failure_leaves_three_pictures_and_a_page_with_them(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    changed = grey(1)
    changed[2, 3] = 200
    message = project.fails(changed, name="picture")
    assert "see build/results/index.html, and `vkshare approve` takes it over" in message
    ((failure,), _) = project.run.finish()
    shown = {"expected": grey(1), "actual": changed}
    for what, pixels in shown.items():
        assert (picture_files.load(project.results / f"{failure.stem}-{what}.png") == pixels).all()
    difference = picture_files.load(project.results / f"{failure.stem}-difference.png")
    assert difference[2, 3].tolist() == [255, 255, 255]
    assert difference.sum() == 3 * 255
    page = (project.results / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 7
    assert not re.findall(r"(?:src|href)=\"(?!data:)|url\(|<script|@import|https?:", page), "it must stand alone"
    assert "<h1>1 picture differs</h1>" in page


def test_a_page_shows_names_as_text(project: Project) -> None:
    project.fails(grey(1), test="tests/test_a.py::test_b[<script>]")
    project.run.finish()
    page = (project.results / "index.html").read_text()
    assert "[&lt;script&gt;]" in page
    assert "<script" not in page


def test_the_next_run_forgets_the_failures_of_the_last_one(project: Project) -> None:
    project.fails(grey(1))
    project.run.finish()
    assert (project.results / "index.html").is_file()
    project.begin()
    project.run.finish()  # it judged nothing: the last results stay
    assert len(failures.read(project.results)) == 1
    project.begin()
    project.fails(grey(1), name="other")
    project.run.finish()
    assert [each.name for each in failures.read(project.results)] == ["other"]
    picture_files.save(project.goldens / "other.png", grey(1))
    project.begin()
    project.judge(grey(1), name="other")
    project.run.finish()
    assert [path.name for path in project.results.iterdir()] == ["run.json"]


def test_reports_of_workers_are_added_up(project: Project) -> None:
    picture_files.save(project.goldens / "picture.png", grey(1))
    workers = [GoldenRun(project.root, project.results, run=project.run.run) for _ in range(2)]
    Golden(workers[0], "test_1", project.goldens, CPU)(grey(1), "picture")
    with pytest.raises(AssertionError):
        Golden(workers[1], "test_2", project.goldens, LAVAPIPE)(grey(2), "picture")
    for worker in workers:
        project.run.join(worker.output())
    assert project.run.judged == 2
    assert project.approve() == {"lavapipe/picture.png": False}, "the controller must know that the CPU agreed"


def test_a_record_is_read_as_it_was_written(project: Project) -> None:
    project.fails(grey(1), LAVAPIPE)
    (failure,) = failures.read(project.results)
    assert isinstance(failure, Failure)
    assert (failure.name, failure.folder, failure.level) == ("picture", "tests/goldens", None)
    assert failure.levels == ("llvmpipe-256-bits", "lavapipe25", "lavapipe")
    assert failure.files == {path.name for path in project.results.iterdir()}
