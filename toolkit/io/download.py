"""Downloads that survive cut connections and are verified before anything uses them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx

from toolkit.io.web import Patience, no_network, without_credentials
from toolkit.model.errors import CheckError, EnvironmentUnfitError
from toolkit.model.pin import Artifact
from toolkit.model.progress import Progress, Task

_HASHED_AT_ONCE = 1 << 20


def download(
    url: str, target: Path, artifact: Artifact, progress: Progress, *, patience: Patience | None = None
) -> None:
    """Download a file to the target, verified; continue what an earlier run left.

    The bytes so far lie in ``<target>.part``. They are hashed while they arrive, and the file gets its name only when
    size and sha256 are those of the artifact.

    Args:
        url: http or https.
        target: where the file goes; its folder is made.
        artifact: name, sha256 and size that it must have.
        progress: shows a bar.
        patience: with the server; the usual one if left out.

    Raises:
        CheckError: the server sent something else; nothing is kept of it.
        EnvironmentUnfitError: the connection cannot be made or breaks too often without progress, or the bytes cannot
            be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    task = progress.task(artifact.filename, artifact.size)
    try:
        transfer = _Transfer(url, target.with_name(f"{target.name}.part"), artifact, task)
        transfer.complete(patience or Patience())
        if not transfer.is_right and transfer.pieced:
            # The pieces may come from different files, an error page of a proxy for one: once more, in one piece.
            transfer.restart()
            transfer.complete(patience or Patience())
        transfer.finish(target)
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
    """The bytes that have arrived, and the attempts to get more.

    Attributes:
        pieced: the bytes did not come in one answer.
    """

    def __init__(self, url: str, part: Path, artifact: Artifact, task: Task) -> None:
        self.pieced = False
        self._received = 0
        self._digest = hashlib.sha256()
        self._url = url
        self._part = part
        self._artifact = artifact
        self._task = task
        if part.exists():
            self._take_up()

    @property
    def is_right(self) -> bool:
        """Whether the sha256 is that of the artifact."""
        return self._digest.hexdigest() == self._artifact.sha256

    def complete(self, patience: Patience) -> None:
        """Receive until nothing is missing, as long as every few tries bring bytes that were never there before."""
        failures, most = 0, self._received
        with patience.client() as client:
            while self._received < self._artifact.size:
                error = self._attempt(client)
                if error is None:
                    continue
                # Held against the most ever: else a server that begins anew each time and breaks off is asked for ever.
                failures = 1 if self._received > most else failures + 1
                most = max(most, self._received)
                if not patience.wait(failures, error):
                    raise no_network(f"{self._artifact.filename} cannot be downloaded", self._url, error) from error

    def restart(self) -> None:
        """Forget what is there."""
        self._part.unlink(missing_ok=True)
        self._task.advance(-self._received)
        self._received = 0
        self._digest = hashlib.sha256()
        self.pieced = False

    def finish(self, target: Path) -> None:
        """Give the file its name if it is the artifact; remove it if it is not."""
        if not self.is_right:
            self._part.unlink()
            raise wrong_bytes(self._artifact, self._digest.hexdigest(), without_credentials(self._url))
        self._part.replace(target)

    def _attempt(self, client: httpx.Client) -> Exception | None:
        """Receive until the file is complete or something breaks; return what broke."""
        headers = {"Range": f"bytes={self._received}-"} if self._received else {}
        try:
            with client.stream("GET", self._url, headers=headers) as answer:
                if headers and answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    self.restart()
                    return EOFError("the server has no bytes after those that were here")
                answer.raise_for_status()
                self._place(answer)
                self._receive(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return error
        if self._received < self._artifact.size:
            return EOFError(f"the connection ended after {self._received:,} of {self._artifact.size:,} bytes")
        return None

    def _place(self, answer: httpx.Response) -> None:
        """Make the bytes so far fit the answer: it continues them, or it begins anew.

        Raises:
            CheckError: the server's file has another size.
            httpx.RemoteProtocolError: the answer is a part of the file that nobody asked for.
        """
        partial = answer.status_code == httpx.codes.PARTIAL_CONTENT
        first, total = span(answer) if partial else (0, answer.headers.get("Content-Length", ""))
        if total.isdecimal() and int(total) != self._artifact.size:
            where = without_credentials(self._url)
            raise CheckError(
                f"{self._artifact.filename} has the wrong size",
                cause=f"expected {self._artifact.size:,} bytes, and {where} has {int(total):,}",
                fix="run the command again; if it stays so, the registry or something on the way serves another file",
            )
        if first != self._received:
            self.restart()
        if first != self._received:
            raise httpx.RemoteProtocolError("the server sends another part of the file than was asked for")
        self.pieced = self._received > 0

    def _receive(self, answer: httpx.Response) -> None:
        try:
            with self._part.open("ab") as sink:
                # Bytes as they arrive: collecting larger pieces would lose what a cut connection had delivered.
                for piece in answer.iter_raw():
                    self._refuse_more_than(self._artifact.size - len(piece))
                    sink.write(piece)
                    sink.flush()
                    self._count(piece)
        except OSError as error:
            raise EnvironmentUnfitError(
                f"{self._part} cannot be written",
                cause=error.strerror or str(error),
                fix="free some space (hqtool cache shows what the cache holds), or keep it elsewhere with --cache;"
                " the same command then continues",
            ) from error

    def _refuse_more_than(self, limit: int) -> None:
        if self._received > limit:
            self._part.unlink()
            raise CheckError(
                f"{self._artifact.filename} is longer than it must be",
                cause=f"{without_credentials(self._url)} sends more than {self._artifact.size:,} bytes",
                fix="run the command again; if it stays so, the registry serves another file",
            )

    def _count(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._received += len(piece)
        self._task.advance(len(piece))

    def _take_up(self) -> None:
        if self._part.stat().st_size > self._artifact.size:
            self._part.unlink()
            return
        with self._part.open("rb") as left:
            while piece := left.read(_HASHED_AT_ONCE):
                self._count(piece)
        self.pieced = True


def span(answer: httpx.Response) -> tuple[int, str]:
    """Return the first byte that a partial answer holds (-1 if it does not say) and the whole file's stated size."""
    unit, _, stated = answer.headers.get("Content-Range", "").partition(" ")
    positions, _, total = stated.partition("/")
    first = positions.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdecimal() else -1, total
