"""tools/check.py: which suite `make check T=...` means."""

from __future__ import annotations

import check
import pytest

pytestmark = pytest.mark.no_driver


@pytest.mark.parametrize("test", ["test_display", "native/tests/test_display.c", "test_sharing_with_transfers"])
def test_a_name_or_a_source_file_of_the_c_tests_is_a_c_test(test: str) -> None:
    assert check.is_c_test(test)


@pytest.mark.parametrize(
    "test",
    ["tests/rules/vsync/test_display.py", "tests/rules/vsync/test_display.py::test_x", "tests", "", "test_nonsense"],
)
def test_a_path_below_tests_is_pytests_also_where_a_c_test_has_its_name(test: str) -> None:
    assert not check.is_c_test(test)
