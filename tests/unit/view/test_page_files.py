"""The files of the page: all there, all served, with no script or style inside of the HTML (rule W6)."""

from __future__ import annotations

import importlib.resources
import re

import pytest

from vkshare.view import messages, page_files

pytestmark = pytest.mark.no_driver

FILES = page_files.load()


def test_each_file_of_the_folder_is_served_and_no_other() -> None:
    folder = importlib.resources.files("vkshare.view").joinpath("page")
    names = {each.name for each in folder.iterdir()}
    assert {"index.html" if path == "/" else path[1:] for path in FILES} == names


def test_each_file_that_another_one_names_is_there() -> None:
    text = b"\n".join(file.body for file in FILES.values()).decode()
    named = set(re.findall(r'(?:from|href=|src=)\s*"(/[^"]*)"', text))
    assert named
    assert named <= set(FILES)


@pytest.mark.rule("W6")
def test_the_page_has_no_inline_script_or_style_and_calls_no_other_server() -> None:
    html = FILES["/"].body.decode()
    assert re.findall(r"<script(?![^>]* src=)", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", html) == []
    for file in FILES.values():
        addresses = set(re.findall(rb"(?:https?|wss?)://[^\s\"'`$]+", file.body))
        assert addresses <= {b"http://www.w3.org/2000/svg"}
        assert b"innerHTML" not in file.body


def test_the_page_and_the_server_have_one_version_and_one_set_of_kinds() -> None:
    script = FILES["/messages.js"].body.decode()
    assert f"export const VERSION = {messages.VERSION};" in script
    for kind in messages.Kind:
        assert f"const {kind.name} = {kind.value};" in script
