"""References: what a file must be, by whichever source knows it best."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.engine.record import RecordEntry
from toolkit.engine.reference import Basis, Difference, Expected, Extra, differences, expected_files, extras, to_hash
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.ids import Sha256


def digest(data: bytes) -> Sha256:
    """Return a sha256."""
    return Sha256(hashlib.sha256(data).hexdigest())


def line(path: str, data: bytes = b"x") -> RecordEntry:
    """Return a line of RECORD."""
    return RecordEntry(path, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()[:-1], "1")


@given(st.binary())
def test_records_hashes_are_read_as_hexadecimal(data: bytes) -> None:
    expected = expected_files({"vllm/a.py": line("vllm/a.py", data)}, None, None)
    assert expected["vllm/a.py"].sha256 == digest(data)


def test_record_alone() -> None:
    entries = [line("vllm/a.py"), line("vllm/__pycache__/a.cpython-311.pyc"), line("../../../bin/vllm")]
    entries += [RecordEntry("vllm.dist-info/RECORD", "", ""), RecordEntry("vllm/b.py", "md5=abc", "2")]
    entries += [RecordEntry("vllm/c.py", "sha256=!é", "n"), RecordEntry("vllm/d.py", "sha256=eHg", "3")]
    record = {entry.path: entry for entry in entries}
    inside = {
        "vllm/a.py": Expected(digest(b"x"), 1, Basis.RECORD),
        "vllm/b.py": Expected(None, 2, Basis.RECORD),
        "vllm/d.py": Expected(Sha256("unreadable"), 3, Basis.RECORD),
        "vllm/c.py": Expected(Sha256("unreadable"), None, Basis.RECORD),
    }
    assert expected_files(record, None, None) == inside
    script = {"../../../bin/vllm": Expected(digest(b"x"), 1, Basis.RECORD, optional=True)}
    assert expected_files(record, None, None, outside=True) == inside | script


def test_the_index_knows_python_modules_better_than_record() -> None:
    record = {path: line(path) for path in ("vllm/a.py", "vllm/_version.py", "vllm/data.json")}
    index = {path: (digest(b"true"), 4) for path in (*record, "vllm/gone.py", "setup.py")}
    expected = expected_files(record, index, None)
    assert {path: wanted.basis for path, wanted in expected.items()} == {
        "vllm/a.py": Basis.INDEX,
        "vllm/_version.py": Basis.RECORD,
        "vllm/data.json": Basis.RECORD,
        "vllm/gone.py": Basis.INDEX,
    }


def test_a_source_tree_may_lack_what_the_sdist_brings() -> None:
    index = {
        path: (digest(b"x"), 1) for path in ("setup.py", "PKG-INFO", "vllm/_version.py", "vllm.egg-info/SOURCES.txt")
    }
    expected = expected_files(None, index, None)
    assert [path for path, wanted in expected.items() if not wanted.optional] == ["setup.py"]
    assert [item.path for item in differences(expected, {}, {})] == ["setup.py"]


def test_what_is_hashed() -> None:
    expected = {
        path: Expected(digest(b"x"), 1, Basis.RECORD)
        for path in ("a.py", "short.py", "absent.py", "a.so", MANIFEST_PATH)
    }
    expected["unknown.py"] = Expected(None, 1, Basis.RECORD)
    expected["generated.py"] = Expected(digest(b"x"), None, Basis.MANIFEST)
    sizes = {"a.py": 1, "short.py": 0, "a.so": 1, "unknown.py": 1, "generated.py": 7, MANIFEST_PATH: 1}
    assert to_hash(expected, sizes, full=False) == ["a.py", MANIFEST_PATH, "generated.py"]
    assert to_hash(expected, sizes, full=True) == ["a.py", "a.so", MANIFEST_PATH, "generated.py"]


def test_differences_say_what_was_expected() -> None:
    names = ("edited", "gone", "longer", "same", "unread")
    expected = {name: Expected(digest(b"x"), 1, Basis.RECORD) for name in names}
    sizes = {"edited": 1, "longer": 2000, "same": 1, "unread": 1}
    hashes = {"edited": digest(b"y"), "same": digest(b"x")}
    assert list(differences(expected, sizes, hashes)) == [
        Difference("edited", f"sha256 {digest(b'x')[:12]}", f"sha256 {digest(b'y')[:12]}", Basis.RECORD),
        Difference("gone", "a file", "", Basis.RECORD),
        Difference("longer", "1 bytes", "2,000 bytes", Basis.RECORD),
    ]


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("vllm/core/__init__.py", Extra("vllm/core/__init__.py", "vllm/core.py")),
        ("vllm/core/__init__.pyc", Extra("vllm/core/__init__.pyc", "vllm/core.py")),
        ("vllm/core.so", Extra("vllm/core.so", "vllm/core.py")),
        (
            "vllm/core.cpython-311-x86_64-linux-gnu.so",
            Extra("vllm/core.cpython-311-x86_64-linux-gnu.so", "vllm/core.py"),
        ),
        ("vllm/core.abi3.so", Extra("vllm/core.abi3.so", "vllm/core.py")),
        ("vllm/new.py", Extra("vllm/new.py")),
        ("vllm/new/__init__.py", Extra("vllm/new/__init__.py")),
        ("vllm/new.so", None),
        ("vllm/core.py", None),
        ("vllm/core.py.orig", None),
        ("vllm/core.py.rej", None),
        ("vllm/core.py~", None),
        ("vllm/.#core.py", None),
        ("vllm/__pycache__/core.cpython-311.pyc", None),
        ("vllm/configs/E=8,N=1.json", None),
        ("other/new.py", None),
    ],
)
def test_extras(path: str, extra: Extra | None) -> None:
    assert list(extras([path], ["vllm/core.py"])) == ([extra] if extra else [])
