"""Reads ``pins.toml``: the supported vLLM releases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache

from cattrs import Converter
from packaging.version import InvalidVersion, Version

from toolkit.engine.manifest import invalid
from toolkit.engine.strict_toml import add_class, read_toml, strict_converter
from toolkit.model.pin import Artifact, Pin, Pins

PINS_FILE = "pins.toml"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{9,40}")


def parse_pins(text: str) -> Pins:
    """Return the releases that ``pins.toml`` lists.

    Raises:
        UsageError: its details list every mistake as ``pins.toml: <key>: <problem>``.
    """
    pins, problems = read_toml(_converter(), Pins, text)
    if pins is None:
        raise invalid("the list of pins is invalid", PINS_FILE, problems)
    return pins


@cache
def _converter() -> Converter:
    converter = strict_converter()
    add_class(converter, Artifact, {"filename": _filename, "sha256": _sha256, "size": _size})
    add_class(
        converter,
        Pin,
        {
            "version": _version,
            "tag": _tag,
            "commit": _commit,
            "released": _iso_date,
            "torch": _version,
            "triton": _version,
        },
        _artifact_kinds,
    )
    add_class(converter, Pins, {"repository": _https, "pins": _some}, _versions)
    return converter


def _filename(value: str) -> str:
    return "" if value and "/" not in value and not value.startswith(".") else f"is {value!r}, not a file name"


def _sha256(value: str) -> str:
    return "" if _SHA256.fullmatch(value) else f"is {value!r}, not 64 hexadecimal digits in lower case"


def _size(value: int) -> str:
    return "" if value > 0 else f"is {value}, not a number of bytes above 0"


def _commit(value: str) -> str:
    return "" if _COMMIT.fullmatch(value) else f"is {value!r}, not 9 to 40 hexadecimal digits in lower case"


def _tag(value: str) -> str:
    return "" if value.strip() else "is empty"


def _https(value: str) -> str:
    return "" if value.startswith("https://") else f"is {value!r}, not an https address"


def _some(value: tuple[object, ...]) -> str:
    return "" if value else "lists no release"


def _version(value: str) -> str:
    try:
        normal = str(Version(value))
    except InvalidVersion:
        return f"is {value!r}, not a version by PEP 440"
    return "" if normal == value else f"is {value!r}; PEP 440 spells it {normal!r}"


def _iso_date(value: str) -> str:
    try:
        normal = date.fromisoformat(value).isoformat()
    except ValueError:
        normal = ""
    return "" if normal == value else f"is {value!r}, not a date such as 2026-11-02"


def _artifact_kinds(pin: Pin) -> Iterator[tuple[str, str]]:
    if not pin.sdist.filename.endswith(".tar.gz"):
        yield "sdist.filename", f"is {pin.sdist.filename!r}, which does not end in .tar.gz"
    if not pin.wheel.filename.endswith(".whl"):
        yield "wheel.filename", f"is {pin.wheel.filename!r}, which does not end in .whl"


def _versions(pins: Pins) -> Iterator[tuple[str, str]]:
    listed = [pin.version for pin in pins.pins]
    for version in sorted({version for version in listed if listed.count(version) > 1}):
        yield "pins", f"lists {version} more than once"
    if pins.default not in listed:
        yield "default", f"is {pins.default!r}, not one of {', '.join(listed)}"
