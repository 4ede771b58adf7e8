"""The kinds of files that are written, by their names' endings, and the encoders for each. Loads no PyAV."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vkshare.errors import UnsupportedError
from vkshare.util import arguments
from vkshare.video.decoder import load_av


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """One encoder of PyAV's, and the options that it gets."""

    codec: str
    name: str
    options: tuple[tuple[str, str], ...]
    default_crf: int | None = None  # None: it has no such setting
    most_crf: int = 0
    is_lossless: bool = False
    least_side: int = 1  # pixels


# No encoder holds frames back to reorder them: what was encoded is on the disk a second later, so that a killed
# recording has it, and the packets' order is the frames' order.
_X264 = (("preset", "veryfast"), ("bf", "0"), ("rc-lookahead", "0"), ("sync-lookahead", "0"), ("forced-idr", "1"))
_VP9 = (("deadline", "realtime"), ("cpu-used", "7"), ("lag-in-frames", "0"), ("row-mt", "1"), ("b", "0"))
_AV1 = (("preset", "10"), ("svtav1-params", "pred-struct=1:lookahead=0"))
_FFV1 = (("level", "3"), ("slicecrc", "1"), ("g", "1"), ("coder", "range_tab"))  # half the bytes of its default coder

CODECS: dict[str, tuple[EncoderChoice, ...]] = {  # the first that PyAV's build has is taken
    "h264": (EncoderChoice("h264", "libx264", _X264, 20, 51),),
    "vp9": (EncoderChoice("vp9", "libvpx-vp9", _VP9, 30, 63),),
    "av1": (EncoderChoice("av1", "libsvtav1", _AV1, 30, 63, least_side=32),),
    "ffv1": (EncoderChoice("ffv1", "ffv1", _FFV1, is_lossless=True),),
    "gif": (EncoderChoice("gif", "gif", ()),),
    "png": (EncoderChoice("png", "png", (("pred", "up"),), is_lossless=True),),
}


@dataclass(frozen=True, slots=True)
class FileKind:
    """A container."""

    suffix: str
    codecs: tuple[str, ...]  # the default first
    time_base: int  # ticks a second
    options: tuple[tuple[str, str], ...] = ()

    @property
    def muxer(self) -> str:
        """FFmpeg's name."""
        return {".mkv": "matroska", ".png": "image2"}.get(self.suffix, self.suffix[1:])


# .mp4: fragments while it is recorded, which a killed recording keeps, and a plain file with one index ("moov") at the
# end, which every player and editor reads. .mkv and .webm: short clusters, for the same reason.
_FRAGMENTS = (("movflags", "hybrid_fragmented"), ("frag_duration", "500000"), ("flush_packets", "1"))
_CLUSTERS = (("cluster_time_limit", "500"), ("flush_packets", "1"))

KINDS: dict[str, FileKind] = {
    kind.suffix: kind
    for kind in (
        FileKind(".mp4", ("h264", "vp9", "av1"), 90_000, _FRAGMENTS),
        FileKind(".webm", ("vp9", "av1"), 1000, _CLUSTERS),
        FileKind(".mkv", ("ffv1", "h264", "vp9", "av1"), 1000, _CLUSTERS),
        FileKind(".gif", ("gif",), 100, (("flush_packets", "1"),)),
        FileKind(".png", ("png",), 1),
    )
}

_NUMBER = re.compile(r"%(0\d{1,2})?d")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where frames are written, checked as far as that can be done before the first one."""

    path: Path
    kind: FileKind
    encoder: EncoderChoice
    crf: int | None
    is_sequence: bool  # a PNG file a frame: the path has one %d or %05d
    force: bool  # an existing file is replaced

    @property
    def is_one_picture(self) -> bool:
        """Whether the recording is over after its first frame."""
        return self.kind.suffix == ".png" and not self.is_sequence

    def numbered(self, number: int) -> Path:
        """The file of a sequence's picture; the first has number 1, as FFmpeg counts."""
        name = _NUMBER.sub(lambda found: found[0] % number, self.path.name, count=1)
        return self.path.with_name(name)


def destination(
    path: Any, *, codec: str | None, crf: int | None, force: bool, suffixes: Sequence[str] = tuple(KINDS)
) -> Destination:
    """Checks the arguments of a recording into a file with one of these endings.

    Raises
    ------
    ValueError
        An ending, a codec or a crf that there is not; the text lists those there are.
    OSError
        The folder does not exist, or nothing may be written there; or the file exists, and `force` is False.
    UnsupportedError
        PyAV is not installed, or its build has no encoder for it.
    """
    try:
        given = Path(os.fsdecode(os.fspath(path)))
    except TypeError:
        raise TypeError(f"path must be a path, not {type(path).__name__}") from None
    kind = KINDS.get(given.suffix.lower())
    if kind is None or kind.suffix not in suffixes:
        raise ValueError(f"the file's name is {str(given)!r}; it must end in {', '.join(suffixes)}")
    if codec is not None and arguments.text("codec", codec) not in kind.codecs:
        raise ValueError(f"codec is {codec!r}; a {kind.suffix} file may have {', '.join(kind.codecs)}")
    encoder = encoder_of(kind.codecs if codec is None else (codec,))
    numbers = _NUMBER.findall(given.name) if kind.suffix == ".png" else []
    if len(numbers) > 1 or (kind.suffix == ".png" and given.name.count("%") != len(numbers)):
        raise ValueError(f"the file's name is {str(given)!r}; a sequence's has one number such as %05d, and no other %")
    found = Destination(given, kind, encoder, _crf(encoder, crf), bool(numbers), arguments.flag("force", force))
    check_writable(found.numbered(1) if found.is_sequence else given, force=force)
    return found


def _crf(encoder: EncoderChoice, value: int | None) -> int | None:
    if encoder.default_crf is None:
        if value is not None:
            raise ValueError(f"crf is {value}; {encoder.codec} has no such setting: leave it out")
        return None
    return encoder.default_crf if value is None else arguments.integer("crf", value, 0, encoder.most_crf)


def check_writable(path: Path, *, force: bool) -> None:
    """OSError, which names the file, where it could not be made."""
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder of {str(path)!r} does not exist; make it first")
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder")
    kind = path.stat().st_mode if path.exists() else 0
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        what = "FIFO" if stat.S_ISFIFO(kind) else "socket"
        raise FileExistsError(f"{str(path)!r} is a {what}, whose reader a recording would wait for; choose a file")
    if os.path.lexists(path) and not force:
        raise FileExistsError(f"{str(path)!r} exists; choose another name, or replace it with force=True")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(f"{str(path)!r} may not be written")


def encoder_of(codecs: Sequence[str]) -> EncoderChoice:
    """The first encoder for the first of these codecs that PyAV's build has.

    Raises
    ------
    UnsupportedError
        It has none, or PyAV is not installed.
    """
    av = load_av()
    choices = [choice for codec in codecs for choice in CODECS[codec]]
    for choice in choices:
        try:
            av.codec.Codec(choice.name, "w")
        except ValueError:  # av.codec.codec.UnknownCodecError
            continue
        return choice
    names = ", ".join(choice.name for choice in choices)
    raise UnsupportedError(
        f"a recording in {' or '.join(codecs)}", f"this PyAV has no {names}", "try .mkv, which has ffv1"
    )
