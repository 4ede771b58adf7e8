"""tests/support/time_limits.py: a limit ends a hang; what is measured is measured again, and reported."""

from __future__ import annotations

import pytest
from support.time_limits import TRIES, Measured, at_least, no_hang, until

pytestmark = pytest.mark.no_driver


def test_what_is_in_time_is_measured_once() -> None:
    measure = Measured()
    assert measure(lambda: 0.1, 0.2) == 0.1
    assert measure.retries == []


def test_what_took_too_long_is_measured_again_and_said() -> None:
    measure, figures = Measured(), iter([0.5, 0.3, 0.1])
    assert measure(lambda: next(figures), 0.2) == 0.1
    assert measure.retries == ["0.5 of 0.2", "0.3 of 0.2"]


def test_what_takes_too_long_each_time_fails_with_the_figures() -> None:
    measure, figures = Measured(), iter(range(1, 100))
    with pytest.raises(AssertionError, match=r"0\.2 are allowed.*\[1, 2, 3, 4, 5\]"):
        measure(lambda: next(figures), 0.2)
    assert next(figures) == TRIES + 1


def test_a_wait_that_ends_early_is_found() -> None:
    with pytest.raises(AssertionError, match=r"before its 0\.05 s were over"), at_least(0.05):
        pass


def test_a_limit_that_would_judge_the_machine_is_refused() -> None:
    with pytest.raises(AssertionError, match="judges the machine"), no_hang(1):
        pass


def test_what_never_comes_true_fails_with_what_it_was() -> None:
    with pytest.raises(AssertionError, match="the moon is blue"):
        until(lambda: False, "the moon is blue", 0.01)
