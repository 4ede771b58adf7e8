"""Counting the records of TLS in bytes that come in any pieces."""

from __future__ import annotations

import random

import pytest

from vkshare.util.tls_records import RecordCounter

pytestmark = pytest.mark.no_driver


def test_records_are_counted_in_whatever_pieces_they_come() -> None:
    rng = random.Random(5)
    lengths = [0, 1, 5, 4, 16640, *(rng.randrange(300) for _ in range(50))]
    data = b"".join(bytes([23, 3, 3]) + length.to_bytes(2, "big") + rng.randbytes(length) for length in lengths)
    for most in (1, 2, 5, 7, 4096, len(data)):
        counter, at = RecordCounter(), 0
        while at < len(data):
            size = rng.randint(1, most)
            counter.feed(memoryview(data)[at : at + size])
            at += size
        assert counter.count == len(lengths)


def test_a_record_counts_once_its_header_is_whole() -> None:
    counter = RecordCounter()
    assert counter.feed(b"\x17\x03\x03\x00") == 0
    assert counter.feed(b"\x02") == 1
    assert counter.feed(b"ab\x17\x03\x03\x00") == 1
    assert counter.feed(b"\x00\x17\x03\x03\x00\x00") == 3
