"""Members read out of an archive on a server."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from random import Random

import pytest

from tests.io.hostile_server import Answer, HostileServer, serving
from toolkit.io.remote_zip import BLOCK, read_members
from toolkit.io.web import Patience
from toolkit.model.errors import CheckError, EnvironmentUnfitError
from toolkit.model.progress import Silent

BIG = Random(2).randbytes(4 * BLOCK + 777)
HEADERS = {f"include/{number:03}.h": b"#pragma once\n" * number for number in range(200)}
PATH = "/torch-1.0.whl"


def archive_of(members: dict[str, bytes]) -> bytes:
    """Return a zip archive with big members around the small ones."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lib/first.so", BIG)
        archive.mkdir("include")
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("lib/last.so", BIG)
    return packed.getvalue()


ARCHIVE = archive_of(HEADERS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running


def read(
    server: HostileServer, *answers: Answer, prefix: str = "include/", size: int = len(ARCHIVE)
) -> dict[str, bytes]:
    """Return the members below a folder."""
    url = server.script(PATH, *answers)
    return read_members(
        url, lambda name: name.startswith(prefix), size=size, progress=Silent(), patience=Patience(pause=0.001)
    )


def test_wanted_members_come_and_the_rest_stays(server: HostileServer) -> None:
    assert read(server, Answer(ARCHIVE)) == HEADERS
    assert len(server.asked) <= 4
    assert sum(asked.sent for asked in server.asked) < len(ARCHIVE) / 2


def test_a_member_larger_than_a_block_is_whole(server: HostileServer) -> None:
    assert read(server, Answer(ARCHIVE), prefix="lib/last") == {"lib/last.so": BIG}


def test_nothing_wanted_reads_the_directory_only(server: HostileServer) -> None:
    assert read(server, Answer(ARCHIVE), prefix="absent/") == {}
    assert len(server.asked) <= 2


def test_an_archive_smaller_than_a_block_is_read_at_once(server: HostileServer) -> None:
    small = io.BytesIO()
    with zipfile.ZipFile(small, "w") as archive:
        archive.writestr("include/a.h", b"a")
    assert read(server, Answer(small.getvalue()), size=len(small.getvalue())) == {"include/a.h": b"a"}
    assert server.ranges(PATH) == [f"bytes=0-{len(small.getvalue()) - 1}"]


def test_a_broken_connection_is_made_again(server: HostileServer) -> None:
    assert read(server, Answer(status=503), Answer(ARCHIVE, cut=1000), Answer(ARCHIVE)) == HEADERS


def test_redirects_are_followed(server: HostileServer) -> None:
    server.script("/elsewhere", Answer(ARCHIVE))
    assert read(server, Answer(status=302, headers={"Location": "/elsewhere"})) == HEADERS


@pytest.mark.parametrize(
    "answer",
    [
        Answer(ARCHIVE, ranges=False),
        Answer(ARCHIVE[:BLOCK], status=206, headers={"Content-Range": f"bytes 0-{BLOCK - 1}/{len(ARCHIVE)}"}),
        Answer(ARCHIVE[:10], status=206),
    ],
    ids=["whole file", "another part", "a part of unknown place"],
)
def test_a_server_that_serves_no_ranges_is_named(server: HostileServer, answer: Answer) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        read(server, answer)
    assert caught.value.what == "the registry does not serve parts of a file"
    assert f"{server.url}{PATH}" in caught.value.cause
    assert len(server.asked) == 1


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (500, 5)])
def test_a_server_that_fails_is_given_up(server: HostileServer, status: int, requests: int) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        read(server, Answer(status=status))
    assert caught.value.cause == f"{server.url}{PATH}: HTTP {status}"
    assert len(server.asked) == requests


def test_what_is_no_archive_is_said_to_be_none(server: HostileServer) -> None:
    with pytest.raises(CheckError, match=r"torch-1\.0\.whl is not a readable archive"):
        read(server, Answer(BIG), size=len(BIG))


def test_a_damaged_member_is_found(server: HostileServer) -> None:
    with zipfile.ZipFile(io.BytesIO(ARCHIVE)) as archive:
        at = archive.getinfo("include/150.h").header_offset
    damaged = bytearray(ARCHIVE)
    damaged[at + 30 + len("include/150.h") + 4] ^= 0xFF
    with pytest.raises(CheckError, match="not a readable archive"):
        read(server, Answer(bytes(damaged)))


def test_a_size_that_is_not_the_servers_is_found(server: HostileServer) -> None:
    with pytest.raises((CheckError, EnvironmentUnfitError)):
        read(server, Answer(ARCHIVE), size=len(ARCHIVE) + 5)
