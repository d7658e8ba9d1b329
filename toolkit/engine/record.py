"""RECORD, a wheel's list of its files with their hashes (the binary distribution format specification)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.model.errors import CheckError


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One line; RECORD's own has neither digest nor size.

    Attributes:
        digest: ``sha256=`` and the digest in urlsafe base64 without padding.
        size: in bytes, as written.
    """

    path: str
    digest: str
    size: str

    @classmethod
    def of(cls, path: str, data: bytes) -> RecordEntry:
        """Return the line for a file of these bytes."""
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
        return cls(path, f"sha256={digest}", str(len(data)))


def parse_record(data: bytes) -> dict[str, RecordEntry]:
    """Read RECORD: path -> line, in the file's order.

    Raises:
        CheckError: it is not UTF-8, a line does not have three fields, or a path comes twice.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    entries: dict[str, RecordEntry] = {}
    rows = csv.reader(io.StringIO(text, newline=""))
    for row in rows:
        if not row:
            continue
        if len(row) != 3:
            raise _unreadable(f"line {rows.line_num} has {len(row)} fields instead of 3")
        if row[0] in entries:
            raise _unreadable(f"line {rows.line_num} names {row[0]} a second time")
        entries[row[0]] = RecordEntry(*row)
    return entries


def render_record(entries: Iterable[RecordEntry]) -> bytes:
    """Return the lines as a file, each ended by a line feed."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows((entry.path, entry.digest, entry.size) for entry in entries)
    return text.getvalue().encode()


def _unreadable(cause: str) -> CheckError:
    return CheckError("the wheel's RECORD cannot be read", cause=cause, fix="use a wheel that has not been altered")
