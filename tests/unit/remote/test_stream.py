"""One connection of a session: keep-alives, silence, frames, hostile peers. Rules M6, M10, M12, M13."""

from __future__ import annotations

import gc
import random
import resource
from pathlib import Path

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.remote.inbox import Delivery
from vkshare.remote.link_messages import (
    CHUNK,
    CLOSED_BY_ERROR,
    FRAME,
    MAX_DECODED,
    Acknowledgement,
    Close,
    LinkError,
    Packet,
    Ping,
    Pong,
    Stale,
    encode,
)
from vkshare.remote.outbox import Outbox
from vkshare.remote.stream import Session, Stream

pytestmark = [pytest.mark.no_driver, unhurried]

KEEPALIVE = 1.0


def stream(generation: int = 1) -> Stream:
    return Stream(Session(generation, bytes(16)), KEEPALIVE, 0.0)


def test_the_first_frame_has_a_keep_alive_and_the_messages() -> None:
    one, other = stream(), stream()
    one.session.outbox.put(3, b"a message")
    ping, packet = other.read(one.frame(one.gather(0.0)))
    assert ping == Ping(0)
    assert other.take(packet, 0.0) == Delivery(3, b"a message")
    assert one.gather(0.5) == b""
    assert one.deadline == KEEPALIVE
    assert list(other.read(one.frame(one.gather(KEEPALIVE)))) == [Ping(1_000_000)]


@pytest.mark.rule("M6")
def test_a_peer_is_silent_after_two_keep_alives_without_a_byte() -> None:
    one = stream()
    one.heard(5.0)
    assert not one.is_silent(6.99)
    assert one.is_silent(7.0)


def test_a_keep_alive_is_answered_once_and_measures_the_round_trip() -> None:
    one, other = stream(), stream()
    for item in (Ping(1), Ping(2), Ping(3_000_000)):
        other.take(item, 3.1)
    answers = [item for item in one.read(other.frame(other.gather(3.1))) if isinstance(item, Pong)]
    assert answers == [Pong(3_000_000)]
    one.take(answers[0], 3.25)
    assert one.round_trip == pytest.approx(0.25)


@pytest.mark.rule("M12")
def test_packets_of_another_generation_are_counted_and_dropped() -> None:
    old, new = stream(1), stream(2)
    old.session.outbox.put(3, b"old")
    for item in new.read(old.frame(old.gather(0.0))):
        assert new.take(item, 0.0) is None
    assert new.stale == 1
    assert new.session.inbox.expected == 0
    assert isinstance(next(iter(new.read(old.frame(encode(Acknowledgement(9, 0.0, {}), 1))))), Stale)


def test_a_closing_frame_has_the_reason() -> None:
    one, other = stream(), stream()
    (item,) = other.read(one.closing(CLOSED_BY_ERROR))
    assert other.take(item, 0.0) == Close(CLOSED_BY_ERROR)


def test_frames_are_filled_with_small_messages_and_never_too_long() -> None:
    one, other = stream(), stream()
    one.session.outbox._pacing.measured(0.001, 1e9, False, 0.0)
    for number in range(2000):
        one.session.outbox.put(number % 5, b"message %d" % number)
    count = 0
    while packets := one.gather(0.0):
        assert len(packets) <= MAX_DECODED
        count += sum(isinstance(other.take(item, 0.0), Delivery) for item in other.read(one.frame(packets)))
    assert count == 2000


@pytest.mark.rule("M17")
def test_a_long_packet_of_a_fast_connection_is_sent_again_on_a_slow_one() -> None:
    one, other = stream(), stream()
    one.session.outbox._pacing.measured(0.001, 1e9, False, 0.0)
    one.session.outbox.put(3, bytes(CHUNK))
    assert one.gather(0.0)
    one.session.resumed(0, 0.0)
    assert one.session.outbox.chunk < CHUNK
    again = Stream(one.session, KEEPALIVE, 0.0)
    items = [item for _ in range(3) if (packets := again.gather(0.0)) for item in other.read(again.frame(packets))]
    assert Delivery(3, bytes(CHUNK)) in [other.take(item, 0.0) for item in items]


# ---- hostile peers ---------------------------------------------------------------------------------------------------


def _honest(dice: random.Random, n_frames: int) -> list[bytes]:
    """The packets of some frames of an honest sender."""
    outbox, frames = Outbox(), []
    sender = Stream(Session(1, bytes(16), outbox), KEEPALIVE, 0.0)
    for now in range(n_frames):
        outbox.put(dice.randrange(4), dice.randbytes(dice.randrange(1, 800)))
        frames.append(sender.gather(float(now)))
        outbox.acknowledged(Acknowledgement(outbox.number, 0.0, {}), float(now))
    return frames


def _hostile(dice: random.Random, frames: list[bytes]) -> bytes:
    """A stream with changes before or after the compression, or an end in the middle."""
    sender = stream()
    change_packets = dice.random() < 0.5
    parts = []
    for packets in frames:
        changed = bytearray(packets)
        if change_packets and dice.random() < 0.5:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        parts.append(sender.frame(bytes(changed)))
    data = bytearray(b"".join(parts))
    if not change_packets:
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data[: dice.randrange(1, len(data) + 1)] if dice.random() < 0.3 else data)


def _feed(data: bytes, piece: int) -> bool:
    """Whether a receiver takes a stream without an error."""
    receiver = stream()
    try:
        for at in range(0, len(data), piece):
            for item in receiver.read(data[at : at + piece]):
                result = receiver.take(item, 0.0)
                assert result is None or isinstance(result, Delivery | Close)
        receiver.gather(1.0)
    except LinkError:
        return False
    return True


@pytest.mark.rule("M13", "M10")
def test_mutated_and_truncated_streams_end_in_an_error_or_not_at_all_with_flat_memory() -> None:
    dice = seeded()
    frames = _honest(dice, 4)
    count, refused, before = rounds(1_000_000, 400, full=10_000), 0, 0
    for number in range(count):
        if number == count // 2:
            before = _resident()
        refused += not _feed(_hostile(dice, frames), dice.choice((1, 100, 1 << 16)))
    assert 0 < refused < count
    assert _resident() - before < 30 << 20


def _resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.rule("M13")
def test_an_honest_stream_cut_at_any_byte_is_no_error() -> None:
    frames = _honest(random.Random(3), 3)
    sender = stream()
    data = b"".join(map(sender.frame, frames))
    for end in range(0, len(data), 7):
        assert _feed(data[:end], 1 << 16)


@pytest.mark.rule("M10")
def test_a_frame_that_says_nothing_true_about_its_size_is_refused() -> None:
    sender, receiver = stream(), stream()
    frame = sender.frame(encode(Packet(0, 1, 5, True, b"hello"), 1))
    encoded, decoded = FRAME.unpack_from(frame)
    for wrong in (decoded - 1, decoded + 1):
        with pytest.raises(LinkError, match="a frame"):
            list(stream().read(FRAME.pack(encoded, wrong) + frame[FRAME.size :]))
    assert list(receiver.read(frame)) == [Packet(0, 1, 5, True, b"hello")]


@pytest.mark.rule("M10")
def test_a_frame_is_decompressed_when_its_packets_are_taken() -> None:
    one, other = stream(), stream()
    stale = encode(Acknowledgement(9, 0.0, {}), 2)
    data = b"".join(one.frame(stale) for _ in range(3)) + FRAME.pack(1, 1) + b"?"
    items = other.read(data)
    assert [type(next(items)) for _ in range(3)] == [Stale] * 3
    with pytest.raises(LinkError):
        next(items)
