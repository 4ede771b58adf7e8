"""The exceptions of vks_status."""

from __future__ import annotations

import errno

import pytest

from vkshare.util import statuses
from vkshare.util.library_calls import lib

pytestmark = pytest.mark.no_driver


@pytest.mark.parametrize("status", range(lib.VKS_TIMEOUT, lib.VKS_OUTDATED))
def test_every_status_has_an_exception_that_names_the_call_and_tells_the_cause(status: int) -> None:
    silent, spoken = (statuses.exception(status, "Thing.do", text, errno.ENOENT) for text in (None, "it broke"))
    assert "Thing.do" in str(silent)
    assert "it broke" in str(spoken)
    assert "unknown status" not in str(silent)


def test_a_number_that_is_no_status_is_a_system_error() -> None:
    assert isinstance(statuses.exception(99, "Thing.do", None, 0), SystemError)


def test_a_failed_system_call_is_the_os_error_of_its_errno() -> None:
    error = statuses.exception(lib.VKS_OS_ERROR, "Thing.do", "open", errno.ENOENT)
    assert isinstance(error, FileNotFoundError)
    assert error.errno == errno.ENOENT
    assert "Thing.do: open: No such file" in str(error)
