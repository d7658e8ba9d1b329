"""The wheel's own texts after the edits: what must change has changed, everything else is the same."""

from __future__ import annotations

import configparser
from email.parser import BytesParser
from typing import Any

import pytest
from packaging.metadata import Metadata

from tests.wheel_fixtures import ENTRY_POINTS, METADATA, VERSION_MODULE, WHEEL
from toolkit.engine.metadata import Identity, add_guard, edit_metadata, edit_version_module, edit_wheel, licence_of
from toolkit.model.errors import CheckError

IDENTITY = Identity("vllm", "0.33.0", "0.33.0+hq1.sm86")
TOPICS = ["runtime: Knobs and guard", "hook: A hook"]


def edited(text: str = METADATA) -> bytes:
    """Return the text as METADATA of the modified build."""
    return edit_metadata(text.encode(), IDENTITY, TOPICS)


def test_metadata_states_the_new_version_and_that_it_is_modified() -> None:
    old, new = Metadata.from_email(METADATA), Metadata.from_email(edited())
    assert str(new.version) == "0.33.0+hq1.sm86"
    assert new.summary == "Modified build of vLLM (not official): An engine"
    assert new.description is not None
    assert new.description.startswith("**Modified build of vLLM 0.33.0: files were changed")
    assert "- hook: A hook" in new.description
    assert old.description is not None
    assert new.description.endswith(old.description)
    assert new.license_files == ["LICENSE", "hqtool-modifications.txt"]


def test_other_fields_stay_in_order() -> None:
    def fields(data: bytes) -> list[tuple[str, str]]:
        changed = ("Version", "Summary", "License-File")
        return [(name, value) for name, value in BytesParser().parsebytes(data).items() if name not in changed]

    assert fields(edited()) == fields(METADATA.encode())
    assert ("Requires-Dist", "torch==2.14.0") in fields(edited())


def test_metadata_without_a_description_gets_the_statement_alone() -> None:
    head = METADATA.partition("\n\n")[0] + "\n"
    description = Metadata.from_email(edited(head)).description
    assert description is not None
    assert description.startswith("**Modified build")


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("Version: 0.33.0\n", "", "0 lines start with 'Version:'"),
        ("Version: 0.33.0\n", "Version: 0.33.0\nVersion: 0.33.0\n", "2 lines start with 'Version:'"),
        ("\nVersion: 0.33.0\n", "\nVersion: 0.33.1\n", "not version 0.33.0"),
        ("Summary: An engine\n", "", "0 lines start with 'Summary:'"),
    ],
)
def test_metadata_of_another_form_is_refused(old: str, new: str, cause: str) -> None:
    with pytest.raises(CheckError, match=cause):
        edited(METADATA.replace(old, new, 1))


def test_licence() -> None:
    assert licence_of(METADATA.encode()) == "Apache-2.0"
    with pytest.raises(CheckError):
        licence_of(METADATA.replace("License-Expression", "License").encode())


def test_wheel_gets_the_tags_of_the_file_name() -> None:
    new = edit_wheel(WHEEL.encode(), ["cp38-abi3-manylinux_2_28_x86_64"], "hqtool 0.1.0")
    assert new.decode() == (
        "Wheel-Version: 1.0\nGenerator: hqtool 0.1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n"
    )
    several = edit_wheel(WHEEL.encode(), ["py3-none-any", "py2-none-any"], "x")
    assert several.decode().splitlines()[-2:] == ["Tag: py2-none-any", "Tag: py3-none-any"]


@pytest.mark.parametrize("old", ["Wheel-Version: 1.0\n", "Generator: setuptools (80.10.2)\n", "Tag: "])
def test_wheel_of_another_form_is_refused(old: str) -> None:
    with pytest.raises(CheckError):
        edit_wheel(WHEEL.replace(old, "X").encode(), ["py3-none-any"], "x")


def entries(data: bytes) -> dict[str, dict[str, str]]:
    """Return entry points as importlib.metadata would see them."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(data.decode())
    return {name: dict(parser[name]) for name in parser.sections()}


@pytest.mark.parametrize(
    "text",
    [
        ENTRY_POINTS,
        ENTRY_POINTS + "\n\n",
        ENTRY_POINTS + "\n[other]\na = b:c\n",
        "[vllm.general_plugins]\n\n[x]\ny = z:w\n",
        "[console_scripts]\nvllm = a:b\n",
        "[console_scripts]\nvllm = a:b",
        "",
    ],
)
def test_guard_joins_the_entry_points(text: str) -> None:
    expected = entries(text.encode())
    expected.setdefault("vllm.general_plugins", {})["hq_guard"] = "vllm.hq.guard:register"
    assert entries(add_guard(text.encode())) == expected


def test_a_second_guard_is_refused() -> None:
    with pytest.raises(CheckError, match="hq_guard"):
        add_guard(add_guard(ENTRY_POINTS.encode()))


def executed(data: bytes) -> dict[str, Any]:
    """Return the names that the module defines when it runs."""
    names: dict[str, Any] = {}
    exec(compile(data, "_version.py", "exec"), names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    "text",
    [
        VERSION_MODULE,
        "__version__ = '0.33.0'; version = '0.33.0'\n__version_tuple__ = (0, 33, 0); version_tuple = (0, 33, 0)\n",
        VERSION_MODULE.replace("\n", "\r\n"),
    ],
)
def test_version_module_carries_the_label(text: str) -> None:
    names = executed(edit_version_module(text.encode(), IDENTITY))
    assert names["__version__"] == names["version"] == "0.33.0+hq1.sm86"
    assert names["__version_tuple__"] == names["version_tuple"] == (0, 33, 0, "hq1.sm86")


def test_other_lines_of_the_version_module_stay() -> None:
    new = edit_version_module(VERSION_MODULE.encode(), IDENTITY).decode().splitlines()
    changed = [line for line, old in zip(new, VERSION_MODULE.splitlines(), strict=True) if line != old]
    assert changed == [
        "__version__ = version = '0.33.0+hq1.sm86'",
        "__version_tuple__ = version_tuple = (0, 33, 0, 'hq1.sm86')",
    ]


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("__version__ = version = ", "version = ", "__version__ is assigned 0 times"),
        ("'0.33.0'", "'0.33.1'", "__version__ is not '0.33.0'"),
        ("(0, 33, 0)", "(0, 33, 1)", "__version_tuple__ is not"),
        ("'0.33.0'", "make()", "__version__ is not"),
        ("(0, 33, 0)", "(0,\n33, 0)", "several lines"),
        ("__commit_id__ = commit_id = ", "version = ", "version is assigned 2 times"),
        ("from __future__", "from", "invalid syntax"),
    ],
)
def test_version_module_of_another_form_is_refused(old: str, new: str, cause: str) -> None:
    with pytest.raises(CheckError, match=cause):
        edit_version_module(VERSION_MODULE.replace(old, new, 1).encode(), IDENTITY)
