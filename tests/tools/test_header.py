"""The public headers are the manual of the C core: their declarations exist, and their comments are about these."""

from __future__ import annotations

import re
import shutil

import layers
import pytest
from results import ROOT

pytestmark = pytest.mark.no_driver

NAMES = ("vkshare.h", "vkshare_surface.h", "vkshare_ipc.h", "vkshare_vulkan.h", "vkshare_present.h")
HEADER = "\n".join((ROOT / "native" / name).read_text() for name in NAMES)
BUILT = layers.built()

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_FUNCTION = re.compile(r"^[\w][\w \t]*?[ *](vks_\w+)\(([^;{}]*?)\)(?: __attribute__\(.*?\))?;", re.M | re.S)

# A comment on lines of its own, or a declaration with the comment beside it.
_PIECE = re.compile(r"^(/\*.*?\*/)\n|^(\w[^;{}]*?;)([ \t]*/\*[^\n]*\*/)?$", re.M | re.S)
_STATUS = re.compile(r"VKS_[A-Z]|General\s+(?:\* )?statuses|VKS_X")


def declared(text: str) -> dict[str, set[str]]:
    """Function -> the names of its parameters."""
    code = _COMMENT.sub("", text)
    found = {}
    for match in _FUNCTION.finditer(code):
        parameters = re.sub(r"\(\*(\w+)\)\([^()]*\)", r" \1", match[2])
        names = [re.sub(r"\[.*\]", "", part).split()[-1].lstrip("*") for part in parameters.split(",") if part.split()]
        found[match[1]] = {name for name in names if name != "void"}
    return found


def groups(text: str) -> list[tuple[str, str]]:
    """(comment, the declarations that it belongs to: those of its own line, or all up to the next comment or gap)."""
    found = []
    for match in re.finditer(r"^(/\*.*?\*/)\n((?:[^/\n][^\n]*\n)+)", text, re.M | re.S):
        found.append((match[1], match[2]))
    for match in re.finditer(r"^(\w[^;{}\n]*(?:\n +[^;{}\n]*)*;)[ \t]*(/\*[^\n]*\*/)$", text, re.M):
        found.append((match[2], match[1]))
    return found


def wrong_names(text: str) -> list[str]:
    """What comments call a result or a parameter that the declarations below them do not have."""
    found = []
    for comment, declarations in groups(text):
        functions = declared(declarations)
        if not functions:
            continue
        known = set.union(*functions.values())
        fields = set(re.findall(r"\b\w+\b", _COMMENT.sub("", text)))
        for name in re.findall(r"(?<![\w/*])\*(\w+)\b(?!\*)", comment.replace("\n *", "\n")):
            if name not in known:
                found.append(f"{min(functions)}: *{name}")
        for name in re.findall(r"`(\w+)`", comment):
            if name not in known | fields:
                found.append(f"{min(functions)}: `{name}`")
    return found


def unknown_functions(text: str) -> set[str]:
    """Functions of the core that comments name and that the header does not declare."""
    names = {name for comment in _COMMENT.findall(text) for name in re.findall(r"\b(vks_[a-z_]*[a-z])\(\)", comment)}
    return names - declared(text).keys()


def test_comments_name_the_parameters_of_the_functions_below_them() -> None:
    assert wrong_names(HEADER) == []


def test_a_definition_has_the_names_of_its_declaration() -> None:
    """A refusal of NULL names the parameter of the definition."""
    sources = [path.read_text() for path in (ROOT / "native").rglob("*.c") if "tests" not in path.parts]
    defined = declared(re.sub(r"^\{", ";", "\n".join(sources), flags=re.M).replace(")\n;", ");"))
    assert {name for name, names in declared(HEADER).items() if defined.get(name, names) != names} == set()
    assert len(declared(HEADER).keys() & defined.keys()) > 150


def test_comments_name_functions_that_exist() -> None:
    assert unknown_functions(HEADER) == set()


def comments(text: str) -> dict[str, str]:
    """Function -> what is said of it: on its own line, and above its block, which ends with a gap or a comment."""
    found: dict[str, str] = {}
    for block in re.split(r"\n\s*\n", text):
        above = ""
        for comment, declaration, beside in _PIECE.findall(block):
            above = comment or above
            for name in declared(declaration + "\n"):
                found[name] = above + beside
    return found


def unspoken(text: str) -> list[str]:
    """Functions without a comment, and those that return a status of which their comment says nothing."""
    said = comments(text)
    returns = set(re.findall(r"^vks_status (vks_\w+)\(", _COMMENT.sub("", text), re.M))
    return [
        name for name in declared(text) if not said.get(name) or (name in returns and not _STATUS.search(said[name]))
    ]


@pytest.mark.rule("C2")
def test_every_function_has_a_comment_and_every_status_is_spoken_of() -> None:
    assert comments(HEADER).keys() == declared(HEADER).keys()
    assert unspoken(HEADER) == []


@pytest.mark.rule("C2")
def test_every_function_that_takes_a_deadline_says_whether_it_blocks() -> None:
    said = comments(HEADER)
    silent = {name for name, parameters in declared(HEADER).items() if "deadline" in parameters} - {
        name for name, comment in said.items() if re.search(r"\b[Bb]locks?\b|\bwaits\b|never sleeps", comment)
    }
    assert silent == set()


@pytest.mark.rule("C2")
def test_the_version_script_exports_the_functions_of_the_header_to_everybody() -> None:
    script = (ROOT / "native" / "vkshare.map.in").read_text()
    public, private = script.split("VKSHARE_PRIVATE_", 1)
    assert set(re.findall(r"^ +(vks_\w+);", public, re.M)) == declared(HEADER).keys()
    assert not set(re.findall(r"^ +(vks_\w+);", private, re.M)) & declared(HEADER).keys()


@pytest.mark.skipif(not BUILT or not shutil.which("nm"), reason="nothing was built here")
def test_every_function_is_defined_and_every_symbol_of_the_core_has_its_prefix() -> None:
    assert BUILT is not None
    defined = {name for _, name, is_defined in layers.symbols(BUILT.rglob("*.c.o")) if is_defined}
    assert declared(HEADER).keys() - defined == set()
    assert {name for name in defined if not name.startswith(("vks_", "__"))} == set()


ROTTEN = """\
/* Blocks. *out is a reference. The `deadline` ends it; see vks_gone(). */
vks_status vks_thing_wait(vks_thing *thing, uint64_t *value);
"""


def test_a_comment_that_rots_is_found() -> None:
    assert wrong_names(ROTTEN) == ["vks_thing_wait: *out", "vks_thing_wait: `deadline`"]
    assert unknown_functions(ROTTEN) == {"vks_gone"}
    assert unspoken(ROTTEN) == ["vks_thing_wait"]
    assert unspoken(ROTTEN.replace("Blocks.", "VKS_TIMEOUT.")) == []
    assert unspoken(ROTTEN.replace("*/\n", "*/\n\n")) == ["vks_thing_wait"]
