"""A vLLM of ten files, with two topics that git made patches of, in every form that `check` looks at."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import zipfile
from copy import copy
from pathlib import Path

from tests.conftest import SealedGit
from toolkit.engine.build_manifest import dump_manifest, make_manifest
from toolkit.jobs.series import load_pins, load_series
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.chain import Chain, FileChain
from toolkit.model.ids import BlobId, Sha256, TopicId

VERSION = "1.2.0"
TOPICS = (TopicId("base"), TopicId("second"))

UPSTREAM = {
    "vllm/__init__.py": b"from vllm._version import version\n",
    "vllm/_version.py": b"version: str\n\n__version__ = version = '1.2.0'\n",
    "vllm/core.py": b"".join(b"line %d\n" % number for number in range(1, 30)),
    "vllm/model.py": b"width = 1\n\ndepth = 2\n",
    "vllm/old.py": b"retired = True\n",
    "vllm/plain.py": b"plain = True\n",
    "vllm/deep/__init__.py": b"",
    "vllm/deep/module.py": b"deep = True\n",
    "vllm/data.json": b'{"tuned": 1}\n',
    "vllm/_C.abi3.so": b"\x7fELF library",
}
NEW = {"vllm/hq/__init__.py": b"base = True\n", "vllm/hq/extra.py": b"second = True\n"}

MANIFEST = """\
id = "{name}"
title = "Topic {name}"
kind = "fix"
what = "What."
why = "Why."
probe = "tests/probes/test_{name}.py"
upstream = {{ state = "pending" }}
numbers = {{ lossless = true }}
retires-when = [{{ rule = "reverse-applies" }}]
"""
PINS = f"""\
project = "vllm"
repository = "https://example.org/vllm.git"
default = "{VERSION}"

[[pins]]
version = "{VERSION}"
tag = "v{VERSION}"
commit = "012345678"
released = "2026-01-01"
torch = "2.14.0"
triton = "3.8.0"
sdist = {{ filename = "vllm-{VERSION}.tar.gz", sha256 = "{"5" * 64}", size = 1 }}
wheel = {{ filename = "vllm-{VERSION}-cp38-abi3-linux_x86_64.whl", sha256 = "{"6" * 64}", size = 1 }}
"""
SERIES = 'revision = 3\n[[topics]]\nid = "base"\n[[topics]]\nid = "second"\nrequires = ["base"]\n'


def levels() -> list[dict[str, bytes]]:
    """Return the tree before the series and after each topic."""
    base = UPSTREAM | {"vllm/hq/__init__.py": NEW["vllm/hq/__init__.py"]}
    base["vllm/core.py"] = base["vllm/core.py"].replace(b"line 3\n", b"line 3, by base\n")
    second = base | {"vllm/hq/extra.py": NEW["vllm/hq/extra.py"]}
    second["vllm/core.py"] = second["vllm/core.py"].replace(b"line 25\n", b"line 25, by second\n")
    second["vllm/model.py"] = second["vllm/model.py"].replace(b"width = 1", b"width = 2")
    del second["vllm/old.py"]
    return [UPSTREAM, base, second]


def write_files(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder."""
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root


class SmallVllm:
    """The series in a folder of its own, and trees at every level of it.

    Attributes:
        levels: files of the tree before the series and after each topic.
        chain: as git sees it.
    """

    def __init__(self, root: Path, git: SealedGit) -> None:
        self.root = root
        self.levels = levels()
        repository = git.repository()
        for level, tree in enumerate(self.levels):
            for path in {*UPSTREAM, *NEW} - set(tree):
                (repository / path).unlink(missing_ok=True)
            write_files(repository, tree)
            git("add", "--all", cwd=repository)
            git("commit", "--quiet", "--message", f"level {level}", cwd=repository)
            git("tag", f"level{level}", cwd=repository)
        write_files(self.patchsets, {"pins.toml": PINS.encode(), "series.toml": SERIES.encode()})
        for level, name in enumerate(TOPICS, 1):
            span = (f"level{level - 1}", f"level{level}")
            patch = git("diff", "--full-index", *span, "--", ".", ":!vllm/hq", cwd=repository).stdout
            home = {"topic.toml": MANIFEST.format(name=name).encode(), f"{VERSION}.patch": patch}
            new = {path for path in self.levels[level] if path not in self.levels[level - 1]}
            write_files(self.patchsets / name, home | {f"files/{path}": NEW[path] for path in new})
        ids = [_ids(git, repository, level) for level in range(len(self.levels))]
        touched = sorted(path for path in {*UPSTREAM, *NEW} if len({at.get(path) for at in ids}) > 1)
        self.chain = Chain(TOPICS, tuple(FileChain(path, tuple(at.get(path) for at in ids)) for path in touched))

    @property
    def patchsets(self) -> Path:
        """The folder of the series."""
        return self.root / "patchsets"

    def copy(self, root: Path) -> SmallVllm:
        """Return the same series in another folder, without asking git again."""
        other = copy(self)
        other.root = root
        shutil.copytree(self.patchsets, other.patchsets)
        return other

    def source(self, level: int, name: str = "source") -> Path:
        """Write a source tree of that level."""
        return write_files(self.root / name, self.levels[level] | {"setup.py": b"setup()\n", "PKG-INFO": b"info\n"})

    def site(
        self, level: int, name: str = "site", *, built: bool = False, more: dict[str, bytes] | None = None
    ) -> Path:
        """Write an installation of that level; ``built`` puts a manifest in, as build-wheel does."""
        return write_files(self.root / name, self.packed(level, built=built, more=more))

    def wheel(self, level: int, name: str = "vllm.whl", *, built: bool = False) -> Path:
        """Write a wheel of that level."""
        path = self.root / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in self.packed(level, built=built).items():
                archive.writestr(member, data)
        return path

    def packed(self, level: int, *, built: bool = False, more: dict[str, bytes] | None = None) -> dict[str, bytes]:
        """Return the files of a wheel, RECORD included."""
        version = f"{VERSION}+hq3.sm86" if built else VERSION
        files = self.levels[level] | (more or {})
        if built:
            files["vllm/_version.py"] = f"__version__ = version = '{version}'\n".encode()
            files[MANIFEST_PATH] = self.manifest(files["vllm/_version.py"])
        info = f"vllm-{version}.dist-info"
        files[f"{info}/METADATA"] = f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n\nText\n".encode()
        files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
        return files

    def manifest(self, version_module: bytes) -> bytes:
        """Return the manifest of a build of the whole series."""
        return dump_manifest(
            make_manifest(
                pin=load_pins(self.patchsets).get(),
                series=load_series(self.patchsets, VERSION),
                chain=self.chain,
                base=Sha256("6" * 64),
                version=f"{VERSION}+hq3.sm86",
                generated={"vllm/_version.py": Sha256(hashlib.sha256(version_module).hexdigest())},
                kernels=None,
                tool="hqtool 0",
            )
        )

    def index(self) -> dict[str, tuple[Sha256, int]]:
        """Return the file index that a fetch of the sdist leaves."""
        files = UPSTREAM | {"setup.py": b"setup()\n", "PKG-INFO": b"info\n"}
        return {path: (Sha256(hashlib.sha256(data).hexdigest()), len(data)) for path, data in files.items()}


def _ids(git: SealedGit, repository: Path, level: int) -> dict[str, BlobId]:
    listed = git("ls-tree", "-r", f"level{level}", cwd=repository).stdout.decode()
    rows = (line.split(maxsplit=3) for line in listed.splitlines())
    return {path: BlobId(name) for _, _, name, path in rows}


def record(files: dict[str, bytes], own: str) -> bytes:
    """Return RECORD by its specification."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.writerow((path, f"sha256={digest}", len(data)))
    rows.writerow((own, "", ""))
    return text.getvalue().encode()
