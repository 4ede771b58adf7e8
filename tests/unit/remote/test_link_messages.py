"""Packets and frames: what goes in comes out, and anything malformed is refused. Rules M10, M12, M13."""

from __future__ import annotations

import struct

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.remote import link_messages as m
from vkshare.remote.link_messages import (
    Acknowledgement,
    Close,
    FrameSplitter,
    Item,
    LinkError,
    Packet,
    Ping,
    Pong,
    Stale,
    decode,
    encode,
)

pytestmark = [pytest.mark.no_driver, unhurried]

ITEMS: list[Item] = [
    Packet(0, 0, 5, True, b"hello"),
    Packet(1, 0xFFFFFFFF, m.MAX_MESSAGE, False, b"x"),
    Packet(2, 7, 0, True, b""),
    Acknowledgement(3, 0.02, {0: 1, 7: 1 << 40} | dict.fromkeys(range(8, m.MAX_LANES), 0)),
    Ping(12345),
    Pong(1 << 63),
    Close(m.CLOSED_BY_PROGRAM),
]


def test_packets_of_each_kind_come_back_as_they_were() -> None:
    assert list(decode(b"".join(encode(item, 3) for item in ITEMS), 3)) == ITEMS


@pytest.mark.rule("M12")
def test_packets_of_another_generation_are_stale() -> None:
    data = b"".join(encode(item, 3) for item in ITEMS)
    assert [type(item) for item in decode(data, 4)] == [Stale] * 4 + [Ping, Pong, Close]


@pytest.mark.rule("M13")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00", "unknown kind 0"),
        (b"\x63", "unknown kind 99"),
        (b"\x01\x00", "cut short"),
        (m.PACKET.pack(m.BEGIN, 1, 0, 0, 5, 5) + b"hell", "declares 5 bytes, and 4 came"),
        (m.PACKET.pack(m.BEGIN, 1, 0, 0, 0, 0), "declares 0 bytes"),
        (m.PACKET.pack(m.BEGIN, 1, 0, 0, m.MAX_MESSAGE + 1, 1) + b"x", "allowed are 1 to 1048576"),
        (m.PACKET.pack(m.BEGIN, 1, 0, 0, 1, 2) + b"xy", "2 bytes of a message of 1"),
        (m.PACKET.pack(m.CONTINUE, 1, 0, 0, 1, 0), "0 bytes of a message of 1"),
        (m.PACKET.pack(m.END, 1, 0, 0, 1, 0), "the end of lane 0 has 1 bytes"),
        (struct.pack("<BIQIH", m.ACK, 1, 0, 0, 1025), "names 1025 lanes"),
        (struct.pack("<BIQIH", m.ACK, 1, 0, 0, 2) + bytes(12), "cut short"),
        (bytes((m.CLOSE, 9)), "unknown reason 9"),
        (bytes(m.MAX_DECODED + 1), "allowed are 33792"),
    ],
)
def test_malformed_packets_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(LinkError, match=why):
        list(decode(data, 1))


@pytest.mark.rule("M10")
@pytest.mark.parametrize(("encoded", "decoded"), [(0, 1), (1, 0), (m.MAX_ENCODED + 1, 1), (1, m.MAX_DECODED + 1)])
def test_a_frame_of_a_wrong_size_is_refused_before_its_bytes_come(encoded: int, decoded: int) -> None:
    with pytest.raises(LinkError, match="a frame declares"):
        list(FrameSplitter().feed(m.FRAME.pack(encoded, decoded)))


def test_frames_may_come_in_any_pieces() -> None:
    stream = b"".join(m.FRAME.pack(n, n + 1) + bytes([n]) * n for n in range(1, 50))
    for step in (1, 7, 10_000):
        splitter = FrameSplitter()
        frames = [f for at in range(0, len(stream), step) for f in splitter.feed(stream[at : at + step])]
        assert frames == [(bytes([n]) * n, n + 1) for n in range(1, 50)]


@pytest.mark.rule("M13")
def test_mutated_frames_are_decoded_or_refused() -> None:
    dice = seeded()
    data = b"".join(encode(item, 3) for item in ITEMS)
    refused = 0
    for _ in range(rounds(1_000_000, 5000, full=50_000)):
        mutated = bytearray(data[: dice.randrange(1, len(data) + 1)])
        for _ in range(dice.randrange(4)):
            mutated[dice.randrange(len(mutated))] = dice.randrange(256)
        try:
            for item in decode(bytes(mutated), 3):
                assert not isinstance(item, Packet) or len(item.payload) <= m.CHUNK
        except LinkError:
            refused += 1
    assert refused


@pytest.mark.rule("M10", "M13")
@pytest.mark.parametrize("item", [m.Acknowledgement(1, 0.0, {}), m.Ping(1), m.Pong(1), m.Close(0)], ids=repr)
def test_a_frame_has_one_packet_of_each_kind_that_carries_no_message(item: m.Item) -> None:
    data = m.encode(item, 1)
    assert list(m.decode(data, 1)) == [item]
    with pytest.raises(m.LinkError, match="a frame has two packets of the kind"):
        list(m.decode(data * 2, 1))
