"""Downloads that survive cut connections and are verified before anything uses them."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import httpx

from toolkit.io.index import no_network, without_credentials
from toolkit.model.errors import CheckError, EnvironmentUnfitError
from toolkit.model.pin import Artifact
from toolkit.model.progress import Progress, Task

CHUNK = 1 << 20
TRIES = 5
"""Tries in a row without a single new byte before a download is given up."""
_TIMEOUT = httpx.Timeout(30, connect=15)
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_PAUSE = 30.0


def download(url: str, target: Path, artifact: Artifact, progress: Progress, *, pause: float = 1.0) -> None:
    """Download a file to the target, verified; continue what an earlier run left.

    The bytes so far lie in ``<target>.part``. They are hashed while they arrive, and the file gets its name only when
    size and sha256 are those of the artifact.

    Args:
        url: http or https.
        target: where the file goes; its folder is made.
        artifact: name, sha256 and size that it must have.
        progress: shows a bar.
        pause: seconds before the first new try; doubled for each further one.

    Raises:
        CheckError: the server sent something else; nothing is kept of it.
        EnvironmentUnfitError: the connection cannot be made, or breaks `TRIES` times without progress.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    task = progress.task(artifact.filename, artifact.size)
    try:
        transfer = _Transfer(url, part, artifact, task)
        failures = 0
        while transfer.received < artifact.size:
            before = transfer.received
            error = transfer.attempt()
            if error is None:
                continue
            failures = 1 if transfer.received > before else failures + 1
            if failures >= TRIES or not _worth_retrying(error):
                raise no_network(f"{artifact.filename} cannot be downloaded", url, error) from error
            time.sleep(min(_retry_after(error) or pause * 2 ** (failures - 1), _LONGEST_PAUSE))
        if transfer.digest.hexdigest() != artifact.sha256:
            part.unlink()
            raise wrong_bytes(artifact, transfer.digest.hexdigest(), without_credentials(url))
        part.replace(target)
    finally:
        task.finish()


def wrong_bytes(artifact: Artifact, found: str, where: str) -> CheckError:
    """Return the error for a file that does not have the pinned sha256."""
    return CheckError(
        f"{artifact.filename} has the wrong sha256",
        cause=f"expected {artifact.sha256}, found {found} ({where})",
        fix="run the command again; if it stays wrong, the registry or something on the way changes the file",
    )


class _Transfer:
    """The bytes that have arrived, and the next attempt to get more."""

    def __init__(self, url: str, part: Path, artifact: Artifact, task: Task) -> None:
        self.received = 0
        self.digest = hashlib.sha256()
        self._url = url
        self._part = part
        self._artifact = artifact
        self._task = task
        if part.exists():
            self._take_up()

    def attempt(self) -> Exception | None:
        """Receive until the file is complete or something breaks; return what broke."""
        headers = {"Accept-Encoding": "identity"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
        try:
            with httpx.stream("GET", self._url, headers=headers, follow_redirects=True, timeout=_TIMEOUT) as answer:
                answer.raise_for_status()
                if self.received and not self._continues(answer):
                    self._restart()
                self._receive(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error
        if self.received < self._artifact.size:
            return EOFError(f"the connection ended after {self.received:,} of {self._artifact.size:,} bytes")
        return None

    def _continues(self, answer: httpx.Response) -> bool:
        return answer.status_code == httpx.codes.PARTIAL_CONTENT and answer.headers.get("Content-Range", "").startswith(
            f"bytes {self.received}-"
        )

    def _receive(self, answer: httpx.Response) -> None:
        with self._part.open("ab") as sink:
            for chunk in answer.iter_raw(CHUNK):
                if self.received + len(chunk) > self._artifact.size:
                    self._part.unlink()
                    raise CheckError(
                        f"{self._artifact.filename} is longer than it must be",
                        cause=f"{without_credentials(self._url)} sends more than {self._artifact.size:,} bytes",
                        fix="run the command again; if it stays so, the registry serves another file",
                    )
                sink.write(chunk)
                self._count(chunk)

    def _count(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        self.received += len(chunk)
        self._task.advance(len(chunk))

    def _take_up(self) -> None:
        if self._part.stat().st_size > self._artifact.size:
            self._part.unlink()
            return
        with self._part.open("rb") as left:
            while chunk := left.read(CHUNK):
                self._count(chunk)

    def _restart(self) -> None:
        """Forget what is there: the server does not continue, it begins again."""
        self._part.unlink(missing_ok=True)
        self._task.advance(-self.received)
        self.received = 0
        self.digest = hashlib.sha256()


def _worth_retrying(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _AGAIN
    return not isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol)


def _retry_after(error: Exception) -> float:
    """Return the seconds that the server asks to wait, 0 when it does not say so in seconds."""
    if not isinstance(error, httpx.HTTPStatusError):
        return 0
    stated = error.response.headers.get("Retry-After", "")
    return float(stated) if stated.isdigit() else 0


def read_range(client: httpx.Client, url: str, first: int, last: int) -> bytes:
    """Return the bytes from ``first`` to ``last``, both included.

    Raises:
        EnvironmentUnfitError: the server does not answer, or does not serve ranges.
    """
    for turn in range(TRIES):
        try:
            answer = client.get(url, headers={"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"})
            answer.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if turn == TRIES - 1 or not _worth_retrying(error):
                raise no_network("a part of a file cannot be downloaded", url, error) from error
            time.sleep(min(_retry_after(error) or 2.0**turn, _LONGEST_PAUSE))
            continue
        if answer.status_code != httpx.codes.PARTIAL_CONTENT or len(answer.content) != last - first + 1:
            break
        return answer.content
    raise EnvironmentUnfitError(
        "the registry does not serve parts of a file",
        cause=f"{without_credentials(url)} answers a range request with something else",
        fix="use a registry that supports HTTP range requests (set HQTOOL_INDEX_URL)",
    )
