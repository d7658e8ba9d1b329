"""Git, as a runner of explicit commands; nothing of GitPython's object model is used.

User text never becomes an option: addresses and names are checked, and every list of arguments has its end marked.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError

MINIMUM = (2, 30)
"""--end-of-options works for every command used here from git 2.30 on."""
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")
_SEALED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:file",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


class Git:
    """One repository on disk; closes GitPython's handles when the block ends."""

    def __init__(self, folder: Path) -> None:
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # a missing git is our message, not an exception at import
        import git

        self._module: Any = git
        require_git()
        self._folder = folder
        self._repo: Any = None

    def __enter__(self) -> Git:
        if (self._folder / ".git").exists():
            self._repo = self._module.Repo(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._repo is not None:
            self._repo.close()

    def init(self) -> None:
        """Make an empty repository."""
        self._repo = self._module.Repo.init(self._folder)

    def fetch_tag(self, repository: str, tag: str) -> None:
        """Fetch that one tag, without history.

        Args:
            repository: an https address, a file address or an absolute path.
            tag: its name.

        Raises:
            UsageError: the address or the name is not acceptable.
            CheckError: the repository has no such tag.
            EnvironmentUnfitError: it cannot be reached.
        """
        check_repository(repository)
        if not _TAG.fullmatch(tag):
            raise UsageError(f"{tag!r} is not a tag name", fix="correct the tag in patchsets/pins.toml")
        reference = f"refs/tags/{tag}"
        try:
            self._run(
                "fetch", "--quiet", "--depth=1", "--no-tags", "--end-of-options", repository, f"{reference}:{reference}"
            )
        except self._module.GitCommandError as error:
            said = _fatal(str(error.stderr))
            if "couldn't find remote ref" in said:
                raise CheckError(
                    f"{repository} has no tag {tag}",
                    cause="git fetch does not find it there",
                    fix="name the repository that has it with --repository",
                ) from error
            raise EnvironmentUnfitError(
                f"{repository} cannot be fetched",
                cause=said or f"git exits with {error.status}",
                fix="check the address and the network, or use --source sdist",
            ) from error

    def commit_of(self, reference: str) -> str:
        """Return the 40 digits of the commit that a reference leads to."""
        return str(self._run("rev-parse", "--verify", "--end-of-options", f"{reference}^{{commit}}"))

    def check_out(self, commit: str) -> None:
        """Write that commit's files into the folder, byte for byte, whatever the user's settings say."""
        self._run(
            "-c", "core.autocrlf=false", "-c", "advice.detachedHead=false", "checkout", "--quiet", "--force", commit
        )

    def _run(self, *arguments: str) -> Any:
        return self._repo.git.execute(["git", *arguments], env=os.environ | _SEALED)


def _fatal(printed: str) -> str:
    """Return git's own sentence out of what GitPython makes of standard error."""
    found = re.search(r"(?:fatal|error): (.+?)'?$", printed, re.MULTILINE)
    return found[1] if found else printed.strip()


def require_git() -> tuple[int, int]:
    """Return git's version.

    Raises:
        EnvironmentUnfitError: git is missing or older than needed.
    """
    from toolkit.io.process import run

    install = "install a newer git: apt-get install git"
    found = run([shutil.which("git") or "git", "--version"]) if shutil.which("git") else None
    if found is None:
        raise EnvironmentUnfitError("git is not installed", cause="there is no git on the PATH", fix=install)
    version = re.search(r"(\d+)\.(\d+)", found.output)
    if found.code or version is None:
        raise EnvironmentUnfitError("git does not run", cause=found.output.strip(), fix=install)
    numbers = int(version[1]), int(version[2])
    if numbers < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        raise EnvironmentUnfitError(
            "git is too old", cause=f"it is {version[0]}, and {needed} or newer is needed", fix=install
        )
    return numbers


def check_repository(repository: str) -> None:
    """Refuse an address that git would take for an option, a command or a remote helper.

    Raises:
        UsageError: it is none of the accepted forms.
    """
    parts = urlsplit(repository)
    remote = parts.scheme == "https" and bool(parts.hostname) and not (parts.hostname or "").startswith("-")
    local = parts.scheme == "file" or (repository.startswith("/") and not parts.scheme)
    if not (remote or local):
        raise UsageError(
            f"{repository!r} is not an acceptable repository",
            cause="only https:// and file:// addresses and absolute paths are",
            fix="name the repository in one of these forms",
        )
