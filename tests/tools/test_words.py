"""The words that the code has left behind: docs/glossary.md has the terms that stand for them now."""

from __future__ import annotations

import re

import pytest
from results import ROOT
from sources import listed

pytestmark = pytest.mark.no_driver

CHECKED = ("vkshare", "native", "docs", "tests", "benchmarks", "examples", "README.md")
SUFFIXES = (".c", ".h", ".py", ".pyi", ".md", ".svg", ".pml", ".inc")

# Identifiers and private terms, whole words. Plain English words that had a private meaning (part, order, look) cannot
# be found by their letters; tools/prose.toml has what can be found in sentences.
OLD = re.findall(
    r"\S+",
    """    hub hubs vks_hub\\w* vkpy_hub\\w* LoopHub unstick vks_device_unstick signal_for_the_dead
    is_usual vks_submit_usual vks_op vks_op_\\w+ VKS_OP_\\w+ vks_device_pump\\w* pump
    lend_out lent_value lent_back lend_wait lend_value outside_lost vks_\\w+_outside lent lends
    hand_out take_back hand_off vks_hand_off\\w* vks_front\\w*
    debt debts debtor debtors vks_debt\\w* owes owe owed vks_mutex_owe vks_surface_owe\\w*
    settle_seq settle_want wake_settlers vks_mutex_settle vks_surface_settle
    vks_due\\w* VKS_DUE_\\w+ tenure tenures vks_tenure\\w* vks_surface_grant VKS_BROKEN vks_mutex_break
    goes_out given_away acquire_soon acquire_on acquire_same vks_raise vks_set_patience
    vks_peers_bury bury roster unpinned_peers shelved spoil spoiled
    vks_mail vks_mail_\\w+ VKS_MAIL_\\w+ rouse vks_ticker\\w*
    vkpy_kept\\w* vkpy_locks\\w* Graveyard Lease parcels _parcels _graveyard _insiders is_gone
    Door Boss hired conversation greeting listening_\\w+ zygote
    whoever whomever nobody somebody robbed strangers""",
)

# Where an old word stays: the words that a reader types, that have another meaning there, or that are quoted.
ALLOWED = {
    "tests/support/private_displays.py": {"nobody"},  # the name of a user
}
LEFT_OUT = "tests/tools/test_words.py"  # has the words themselves


def _old_words(text: str) -> set[str]:
    return set(re.findall(rf"(?<![A-Za-z0-9_])(?:{'|'.join(OLD)})(?![A-Za-z0-9_])", text))


def test_an_old_word_is_found() -> None:
    assert _old_words("vks_hub_create(&hub); /* nobody owes it */ a_debt_x") == {
        "vks_hub_create", "hub", "nobody", "owes",
    }  # fmt: skip


def test_the_code_and_the_documents_have_none_of_the_old_words() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("the tree is no git checkout")
    named = {str(path.relative_to(ROOT)): path for path in listed(CHECKED, SUFFIXES)}
    files = {name: path for name, path in named.items() if name != LEFT_OUT}
    found = {name: _old_words(path.read_text()) - ALLOWED.get(name, set()) for name, path in files.items()}
    assert {name: words for name, words in found.items() if words} == {}
