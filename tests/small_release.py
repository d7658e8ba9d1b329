"""A release small enough to fetch in a test: an sdist, a wheel, their pins and the registry that has them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.io.hostile_server import Answer, HostileServer
from toolkit.io.cache import Cache
from toolkit.jobs.series import load_pins
from toolkit.model.pin import Artifact, Pins

ROOT = Path(__file__).parent.parent
VERSION = "7.1.0"
COMMIT = "0123456789"
FILES = {
    "PKG-INFO": b"Name: vllm\n",
    "vllm/__init__.py": b"from vllm._version import version\n",
    "vllm/_version.py": b"__version__ = version = '7.1.0'\n",
    "vllm/noise.bin": Random(7).randbytes(300_000),
    "tools/run.sh": b"#!/bin/sh\n",
}
SDIST = f"vllm-{VERSION}.tar.gz"
WHEEL = f"vllm-{VERSION}-cp38-abi3-manylinux_2_28_x86_64.whl"


def tar_gz(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return a compressed tar archive of these members."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for info, data in members:
            if info.isreg():
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def member(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    """Return a regular member."""
    info = tarfile.TarInfo(name)
    info.mode = mode
    return info


def sdist_bytes() -> bytes:
    """Return the sdist."""
    modes = {"tools/run.sh": 0o755}
    return tar_gz([(member(f"vllm-{VERSION}/{path}", modes.get(path, 0o644)), data) for path, data in FILES.items()])


def wheel_bytes() -> bytes:
    """Return a wheel; fetch never looks inside."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("vllm/__init__.py", FILES["vllm/__init__.py"])
    return packed.getvalue()


def artifact_of(name: str, data: bytes) -> Artifact:
    """Return how a pin describes a file."""
    return Artifact(name, hashlib.sha256(data).hexdigest(), len(data))  # type: ignore[arg-type]


def closed_port() -> str:
    """Return an address at which nobody answers: port 9 of this machine is not served, and needs root to be."""
    return "http://127.0.0.1:9/simple"


class SmallRelease:
    """The release, a patchsets folder that pins it, and a server that has it.

    Attributes:
        patchsets: folder with ``pins.toml``.
        environment: variables for a process that uses the server.
    """

    def __init__(self, root: Path, server: HostileServer, *, commit: str = COMMIT) -> None:
        self.server = server
        self.sdist, self.wheel = sdist_bytes(), wheel_bytes()
        self.cache = Cache(root / "cache")
        self.patchsets = root / "patchsets"
        self.patchsets.mkdir()
        self.pin_commit(commit)
        self.serve(SDIST, Answer(self.sdist))
        self.serve(WHEEL, Answer(self.wheel))
        index = {"files": [{"filename": name, "url": f"../../files/{name}"} for name in (SDIST, WHEEL)]}
        listing = Answer(json.dumps(index).encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})
        server.script("/simple/vllm/", listing)
        self.environment = {"HQTOOL_INDEX_URL": f"{server.url}/simple", "NO_PROXY": "127.0.0.1"}

    @property
    def pins(self) -> Pins:
        """As hqtool reads them."""
        return load_pins(self.patchsets)

    @property
    def kept(self) -> Path:
        """Where the sdist lies in the cache."""
        sdist = artifact_of(SDIST, self.sdist)
        return self.cache.root / "downloads" / sdist.sha256 / SDIST

    @property
    def part(self) -> Path:
        """Where the sdist grows."""
        return self.kept.with_name(f"{SDIST}.part")

    def pin_commit(self, commit: str) -> None:
        """Write the pins with that commit."""
        lines = [
            'project = "vllm"',
            'repository = "https://example.org/vllm.git"',
            f'default = "{VERSION}"',
            "[[pins]]",
        ]
        lines += [f'version = "{VERSION}"', f'tag = "v{VERSION}"', f'commit = "{commit}"', 'released = "2026-01-01"']
        lines += ['torch = "2.14.0"', 'triton = "3.8.0"']
        for kind, file in (("sdist", artifact_of(SDIST, self.sdist)), ("wheel", artifact_of(WHEEL, self.wheel))):
            lines.append(f'{kind} = {{ filename = "{file.filename}", sha256 = "{file.sha256}", size = {file.size} }}')
        (self.patchsets / "pins.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def serve(self, name: str, *answers: Answer) -> None:
        """Set how the registry answers for a file."""
        self.server.script(f"/files/{name}", *answers)

    def ranges(self, name: str = SDIST) -> list[str]:
        """Return the Range header of every request for a file."""
        return self.server.ranges(f"/files/{name}")

    def command(self, *arguments: str) -> list[str]:
        """Return the real command line."""
        options = ["--cache", str(self.cache.root), "--patchsets", str(self.patchsets)]
        return [sys.executable, "-m", "toolkit.cli.main", *options, *arguments]

    def start(self, *arguments: str, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start hqtool in a process of its own."""
        variables = os.environ | self.environment | (more or {})
        return subprocess.Popen(
            self.command(*arguments),
            env=variables,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, more: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Run hqtool; return its exit code and what it printed on its two outputs."""
        started = self.start(*arguments, more=more)
        out, err = started.communicate(timeout=60)
        return started.returncode, out, err


def tree_files(root: Path) -> dict[str, bytes]:
    """Return what lies under a folder."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
