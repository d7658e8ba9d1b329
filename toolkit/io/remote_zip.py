"""Reads a few members of a large archive on a server, without downloading the rest."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import httpx

from toolkit.io.download import span
from toolkit.io.web import VARIABLE, Patience, no_network, without_credentials
from toolkit.model.errors import CheckError, EnvironmentUnfitError
from toolkit.model.progress import Progress

BLOCK = 256 << 10
"""Bytes fetched at once. Members that are wanted together lie together, so most reads find their block already here."""


def read_members(
    url: str, wanted: Callable[[str], bool], *, size: int, progress: Progress, patience: Patience | None = None
) -> dict[str, bytes]:
    """Return the members of a zip archive whose names are wanted.

    Only zip's own checksums are verified: hold the bytes against a sha256 before using them.

    Args:
        url: of the archive, on a server that serves ranges.
        wanted: tells by its name whether a member is to be read.
        size: of the archive, in bytes.
        progress: shows a bar over the members' compressed bytes.
        patience: with the server; the usual one if left out.

    Raises:
        CheckError: the archive is not a zip archive, or a member is damaged.
        EnvironmentUnfitError: the server does not answer or does not serve ranges.
    """
    patience = patience or Patience()
    filename = PurePosixPath(urlsplit(url).path).name
    with patience.client() as client:
        source = io.BufferedReader(_Remote(client, url, size, patience), BLOCK)
        try:
            with zipfile.ZipFile(source) as archive:
                members = sorted(
                    (info for info in archive.infolist() if not info.is_dir() and wanted(info.filename)),
                    key=lambda info: info.header_offset,
                )
                task = progress.task(filename, sum(info.compress_size for info in members))
                try:
                    found = {}
                    for info in members:
                        found[info.filename] = archive.read(info)
                        task.advance(info.compress_size)
                finally:
                    task.finish()
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise CheckError(
                f"{filename} is not a readable archive",
                cause=str(error) or type(error).__name__,
                fix="run the command again; if it stays so, the registry serves a damaged file",
            ) from error
    return found


class _Remote(io.RawIOBase):
    """A file on a server, read in blocks; the blocks read stay."""

    def __init__(self, client: httpx.Client, url: str, size: int, patience: Patience) -> None:
        self._client = client
        self._url = url
        self._size = size
        self._patience = patience
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._position >= self._size:
            return 0
        number, start = divmod(self._position, BLOCK)
        piece = self._block(number)[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * BLOCK
            self._blocks[number] = self._range(first, min(first + BLOCK, self._size) - 1)
        return self._blocks[number]

    def _range(self, first: int, last: int) -> bytes:
        failures = 0
        while True:
            try:
                return self._ask(first, last)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures += 1
                if not self._patience.wait(failures, error):
                    raise no_network("a part of a file cannot be downloaded", self._url, error) from error

    def _ask(self, first: int, last: int) -> bytes:
        with self._client.stream("GET", self._url, headers={"Range": f"bytes={first}-{last}"}) as answer:
            answer.raise_for_status()
            # Looked at before the body: a server without ranges would send all of a large file.
            partial = answer.status_code == httpx.codes.PARTIAL_CONTENT and span(answer)[0] == first
            data = answer.read() if partial else b""
        if len(data) != last - first + 1:
            raise EnvironmentUnfitError(
                "the registry does not serve parts of a file",
                cause=f"{without_credentials(self._url)} answers a request for a range with something else",
                fix=f"use a registry that supports HTTP range requests (set {VARIABLE})",
            )
        return data
