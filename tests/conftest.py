"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

# A shell that starts the tests in the background lets them ignore SIGINT, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class SealedGit:
    """The real git without this machine's settings: home, configuration, identity, language and clock are fixed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        home = root / "home"
        home.mkdir()
        who = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", "A Tester"), ("EMAIL", "tester@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
        }
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CEILING_DIRECTORIES": str(root),
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            "TZ": "UTC",
            **who,
        }

    def __call__(
        self, *arguments: str, cwd: Path, data: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git there; ``data`` goes to its standard input."""
        return subprocess.run(
            ["git", *arguments], cwd=cwd, input=data, env=self.environment, capture_output=True, check=check
        )

    def folder(self) -> Path:
        """Return a new empty folder with no repository around it."""
        return Path(tempfile.mkdtemp(dir=self.root))

    def repository(self) -> Path:
        """Return a new empty repository with a work tree and the branch ``main``."""
        folder = self.folder()
        self("init", "--quiet", "--initial-branch=main", cwd=folder)
        return folder


@pytest.fixture(scope="session")
def git(tmp_path_factory: pytest.TempPathFactory) -> SealedGit:
    """A git whose answers depend on its arguments only."""
    return SealedGit(tmp_path_factory.mktemp("git"))
