"""Git, as a runner of explicit commands; nothing of GitPython's object model is used.

User text never becomes an option: addresses and names are checked, and every list of arguments has its end marked.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.io.web import without_credentials
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError

MINIMUM = (2, 30)
"""--end-of-options works for every command used here from git 2.30 on."""
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")
_SEALED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:file",
    "GIT_CONFIG_NOSYSTEM": "1",
}
# The user's settings serve to reach a repository (proxies, credentials) and to be let into a checkout. What is written
# does not depend on them, and no hook or filter of theirs runs over it.
_NO_USER = {"HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_COUNT": "0"}
_NO_HOOKS = f"core.hooksPath={os.devnull}"
# Git sets these for its hooks. They would lead every command to the repository whose hook runs hqtool.
_CLEAN = (
    "env",
    "--unset=GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "--unset=GIT_COMMON_DIR",
    "--unset=GIT_DIR",
    "--unset=GIT_INDEX_FILE",
    "--unset=GIT_NAMESPACE",
    "--unset=GIT_OBJECT_DIRECTORY",
    "--unset=GIT_SHALLOW_FILE",
    "--unset=GIT_WORK_TREE",
)


class Git:
    """One repository on disk. Every command is a process of its own: nothing stays open."""

    def __init__(self, folder: Path) -> None:
        require_git()  # before the import, which fails in its own words when there is no git
        import git

        self.folder = folder
        self._failure = git.GitCommandError
        self._git = git.Git(folder)

    def init(self) -> None:
        """Make an empty repository, without the user's templates and hooks."""
        self._run("init", "--quiet", "--template=", environment=_NO_USER)

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
            raise UsageError(
                f"{tag!r} is not a tag name",
                cause="it must begin with a letter or a digit and hold no spaces",
                fix="correct the tag in patchsets/pins.toml",
            )
        wanted = f"refs/tags/{tag}:refs/tags/{tag}"
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        shown = without_credentials(repository)
        try:
            self._run("fetch", *options, "--end-of-options", repository, wanted)
        except EnvironmentUnfitError as error:
            if "couldn't find remote ref" in error.cause:
                raise CheckError(
                    f"{shown} has no tag {tag}",
                    cause="git fetch does not find it there",
                    fix="name the repository that has it with --repository",
                ) from error
            raise EnvironmentUnfitError(
                f"{shown} cannot be fetched",
                cause=error.cause,
                fix="check the address and the network, or use --source sdist",
            ) from error

    def commit_of(self, reference: str) -> str:
        """Return the 40 digits of the commit that a reference leads to.

        Raises:
            EnvironmentUnfitError: git finds none, or will not read the repository.
        """
        return self._run("rev-parse", "--verify", "--end-of-options", f"{reference}^{{commit}}")

    def check_out(self, commit: str) -> None:
        """Write that commit's files into the folder, byte for byte, whatever the user's settings say.

        Raises:
            EnvironmentUnfitError: they cannot be written.
        """
        self._run("checkout", "--quiet", "--force", commit, environment=_NO_USER)

    def _run(self, command: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        words = [*_CLEAN, "git", "-c", _NO_HOOKS, command, *arguments]
        try:
            return str(self._git.execute(words, env=_SEALED | dict(environment or {})))
        except self._failure as error:
            raise EnvironmentUnfitError(
                f"git {command} fails in {self.folder}",
                cause=_fatal(str(error.stderr)) or f"it exits with {error.status}",
                fix="see what git says of this folder (git status), then run the command again",
            ) from error


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
    try:
        parts = urlsplit(repository)
    except ValueError:
        parts = urlsplit("")
    remote = parts.scheme == "https" and bool(parts.hostname) and not (parts.hostname or "").startswith("-")
    local = parts.scheme == "file" or repository.startswith("/")
    if not (remote or local):
        raise UsageError(
            f"{without_credentials(repository)!r} is not an acceptable repository",
            cause="only https:// and file:// addresses and absolute paths are",
            fix="name the repository in one of these forms",
        )
