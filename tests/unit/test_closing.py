"""Objects that are closed: they have no copies, of which one would close what the other uses."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
from support import every_type

from vkshare.util.closing import Closing

pytestmark = pytest.mark.no_driver

CLASSES = {
    name: kind
    for name, kind in every_type.public_types().items()
    if issubclass(kind, Closing) and not inspect.isabstract(kind)
}


@pytest.mark.parametrize("name", CLASSES)
def test_an_object_with_close_is_neither_copied_nor_pickled(name: str) -> None:
    kind = CLASSES[name]
    thing = kind.__new__(kind)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copied(thing)
