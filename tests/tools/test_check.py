"""tools/check.py: which of its arguments is a C test."""

from __future__ import annotations

import check
import pytest


@pytest.mark.parametrize("test", ["test_sharing", "native/tests/test_sharing.c", "test_sharing_with_transfers"])
def test_the_name_or_the_source_of_a_c_test_is_one(test: str) -> None:
    assert check.is_c_test(test)


@pytest.mark.parametrize("test", ["tests/test_sharing.py", "tests/test_sharing.py::test_a", "tests/native", "nothing"])
def test_a_file_or_a_folder_of_pytest_is_none(test: str) -> None:
    """tests/test_sharing.py and native/tests/test_sharing.c have one stem."""
    assert not check.is_c_test(test)
