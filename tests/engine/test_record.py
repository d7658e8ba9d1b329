"""RECORD, against the installer library's reader and hashlib."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installer.records import RecordEntry as Oracle
from installer.records import parse_record_file

from toolkit.engine.record import RecordEntry, parse_record, render_record
from toolkit.model.errors import CheckError

# The installer library takes a backslash for a separator, which no path in a wheel has.
PATHS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\\"), min_size=1)
FILES = st.dictionaries(PATHS, st.binary(max_size=50))


@given(FILES)
def test_installer_reads_what_is_written(files: dict[str, bytes]) -> None:
    written = render_record(RecordEntry.of(path, data) for path, data in files.items())
    rows = list(parse_record_file(written.decode().splitlines()))
    assert [path for path, _, _ in rows] == list(files)
    for row, data in zip(rows, files.values(), strict=True):
        assert Oracle.from_elements(*row).validate(data)


@given(FILES)
def test_round_trip(files: dict[str, bytes]) -> None:
    written = render_record([*(RecordEntry.of(path, data) for path, data in files.items()), RecordEntry("\0", "", "")])
    entries = parse_record(written)
    assert list(entries) == [*files, "\0"]
    assert render_record(entries.values()) == written


def test_digest_is_urlsafe_base64_without_padding() -> None:
    data = b"\x00 some bytes whose digest has a - or _"
    entry = RecordEntry.of("a", data)
    name, _, text = entry.digest.partition("=")
    assert name == "sha256"
    assert "=" not in text
    assert base64.urlsafe_b64decode(text + "=") == hashlib.sha256(data).digest()
    assert entry.size == str(len(data))


def test_lines_of_either_ending_and_quotes_are_read() -> None:
    text = 'a.py,sha256=x,1\r\n"b,""c"".py",sha256=y,2\n\nd/RECORD,,\n'
    assert list(parse_record(text.encode())) == ["a.py", 'b,"c".py', "d/RECORD"]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"a.py,sha256=x\n", "line 1 has 2 fields"),
        (b"a,b,c\nd,e,f,g\n", "line 2 has 4 fields"),
        (b"a,,\nb,,\na,,\n", "line 3 names a a second time"),
        (b"\xff,,\n", "not UTF-8"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(CheckError, match=cause):
        parse_record(data)
