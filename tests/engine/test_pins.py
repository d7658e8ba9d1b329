"""The list of pins: read as written, and every mistake is reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.engine.pins import parse_pins
from toolkit.model.errors import UsageError

SHIPPED = Path(__file__).parents[2] / "patchsets" / "pins.toml"

PINS = f"""\
project = "vllm"
repository = "https://example.org/vllm.git"
default = "1.2.0"

[[pins]]
version = "1.2.0"
tag = "v1.2.0"
commit = "0123456789"
released = "2026-02-28"
torch = "2.14.0"
triton = "3.8.0"
sdist = {{ filename = "vllm-1.2.0.tar.gz", sha256 = "{"a" * 64}", size = 3 }}
wheel = {{ filename = "vllm-1.2.0-py3-none-any.whl", sha256 = "{"b" * 64}", size = 4 }}
"""


def test_every_key_is_read() -> None:
    pins = parse_pins(PINS)
    pin = pins.get()
    assert (pins.project, pins.repository, pins.default) == ("vllm", "https://example.org/vllm.git", "1.2.0")
    assert (pin.version, pin.tag, pin.commit, pin.released) == ("1.2.0", "v1.2.0", "0123456789", "2026-02-28")
    assert (pin.torch, pin.triton) == ("2.14.0", "3.8.0")
    assert (pin.sdist.filename, pin.sdist.sha256, pin.sdist.size) == ("vllm-1.2.0.tar.gz", "a" * 64, 3)
    assert (pin.wheel.filename, pin.wheel.sha256, pin.wheel.size) == ("vllm-1.2.0-py3-none-any.whl", "b" * 64, 4)


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('default = "1.2.0"', 'default = "1.3.0"', "default: is '1.3.0', not one of 1.2.0"),
        ("https://", "http://", "repository: is 'http://example.org/vllm.git', not an https address"),
        ('version = "1.2.0"', 'version = "1.2.0-rc1"', "pins #1.version: is '1.2.0-rc1'; PEP 440 spells it '1.2.0rc1'"),
        ('torch = "2.14.0"', 'torch = "new"', "pins #1.torch: is 'new', not a version by PEP 440"),
        ("0123456789", "01234567", "pins #1.commit: is '01234567', not 9 to 40 hexadecimal digits"),
        ("0123456789", "v1.2.0-tag", "pins #1.commit: is 'v1.2.0-tag', not 9 to 40 hexadecimal digits"),
        ("2026-02-28", "2026-02-30", "pins #1.released: is '2026-02-30', not a date"),
        ("2026-02-28", "20260228", "pins #1.released: is '20260228', not a date"),
        ("a" * 64, "A" * 64, f"pins #1.sdist.sha256: is '{'A' * 64}', not 64 hexadecimal digits in lower case"),
        ("size = 3", "size = 0", "pins #1.sdist.size: is 0, not a number of bytes above 0"),
        ("size = 3", "size = 3.0", "pins #1.sdist.size: is 3.0, not a whole number"),
        ("size = 3", "size = true", "pins #1.sdist.size: is True, not a whole number"),
        (".tar.gz", ".zip", "pins #1.sdist.filename: is 'vllm-1.2.0.zip', which does not end in .tar.gz"),
        ("any.whl", "any.zip", "pins #1.wheel.filename: is 'vllm-1.2.0-py3-none-any.zip', which does not end in .whl"),
        ('"vllm-1.2.0.tar.gz"', '"../a.tar.gz"', "pins #1.sdist.filename: is '../a.tar.gz', not a file name"),
    ],
)
def test_each_mistake_is_named(old: str, new: str, mistake: str) -> None:
    assert old in PINS
    with pytest.raises(UsageError) as caught:
        parse_pins(PINS.replace(old, new))
    assert len(caught.value.details) == 1
    assert caught.value.details[0].startswith(f"pins.toml: {mistake}")


def test_a_release_is_listed_once() -> None:
    with pytest.raises(UsageError, match=r"pins: lists 1\.2\.0 more than once"):
        parse_pins(PINS + PINS[PINS.index("[[pins]]") :])


def test_an_unknown_pin_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"lists 1\.2\.0"):
        parse_pins(PINS).get("9.9")


def test_the_shipped_list() -> None:
    pins = parse_pins(SHIPPED.read_text(encoding="utf-8"))
    assert pins.default == "0.33.0"
    known = {pin.version: (pin.tag, pin.commit, pin.torch, pin.triton) for pin in pins.pins}
    assert known == {
        "0.33.0": ("v0.33.0", "4ba787ec9", "2.14.0", "3.8.0"),
        "0.32.0": ("v0.32.0", "5df63a720", "2.13.0", "3.7.1"),
    }
