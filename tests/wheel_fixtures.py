"""Small official wheels for tests, in all the forms that real archives have, and a pin and a series that fit them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path

from toolkit.model.ids import TopicId, blob_id, sha256
from toolkit.model.pin import Artifact, Pin
from toolkit.model.topic import Kind, Knob, Numbers, Series, Topic, TopicSource, Upstream, UpstreamState

VERSION = "0.33.0"
NAME = f"vllm-{VERSION}-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = f"vllm-{VERSION}.dist-info"
BUILT = "0.33.0+hq1.sm86"
BUILT_NAME = f"vllm-{BUILT}-cp38-abi3-manylinux_2_28_x86_64.whl"
BUILT_INFO = f"vllm-{BUILT}.dist-info"

METADATA = f"""\
Metadata-Version: 2.4
Name: vllm
Version: {VERSION}
Summary: An engine
License-Expression: Apache-2.0
Description-Content-Type: text/markdown
License-File: LICENSE
Requires-Dist: torch==2.14.0
Requires-Dist: numpy

# Engine

Version: {VERSION} is the text of the description, and Summary: too.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: setuptools (80.10.2)
Root-Is-Purelib: false
Tag: cp38-abi3-linux_x86_64

"""
ENTRY_POINTS = """\
[console_scripts]
vllm = vllm.main:main

[vllm.general_plugins]
resolver = vllm.plugins:resolve
"""
VERSION_MODULE = f"""\
# generated
from __future__ import annotations

version: str
__version__: str

__version__ = version = '{VERSION}'
__version_tuple__ = version_tuple = (0, 33, 0)

__commit_id__ = commit_id = 'g4ba787ec9'
"""
PACKAGE = {
    "vllm/_C.abi3.so": b"\x7fELF" + bytes(range(256)) * 4000,
    "vllm/__init__.py": b"from vllm._version import __version__\n",
    "vllm/_version.py": VERSION_MODULE.encode(),
    "vllm/empty.py": b"",
    "vllm/main.py": b"def main():\n    print('main')\n",
    "vllm/na\u00efve, \u201cquoted\u201d.txt": "caf\u00e9\n".encode(),
    'vllm/with "quotes", and comma.txt': b"x\n",
    "vllm/run.sh": b"#!/bin/sh\n",
    f"{INFO}/licenses/LICENSE": b"Apache License 2.0\n",
    f"{INFO}/METADATA": METADATA.encode(),
    f"{INFO}/WHEEL": WHEEL.encode(),
    f"{INFO}/entry_points.txt": ENTRY_POINTS.encode(),
    f"{INFO}/top_level.txt": b"vllm\n",
}
EXECUTABLE = ("vllm/_C.abi3.so", "vllm/run.sh")
STORED = ("vllm/main.py", "vllm/_C.abi3.so")

PATCHED_MAIN = b"def main():\n    print('patched')\n    print('main')\n"
PATCH = f"""\
diff --git a/vllm/main.py b/vllm/main.py
index {blob_id(PACKAGE["vllm/main.py"])}..{blob_id(PATCHED_MAIN)} 100644
--- a/vllm/main.py
+++ b/vllm/main.py
@@ -1,2 +1,3 @@
 def main():
+    print('patched')
     print('main')
""".encode()
TOPIC_TOML = """\
id = "{name}"
title = "The {name} topic"
kind = "memory"
what = "What it does."
why = "Why it is there."
probe = "tests/probes/test_{name}.py"
upstream = {{ state = "pending" }}
retires-when = [{{ rule = "probe-passes" }}]
numbers = {{ lossless = true }}
"""


class _Pipe(io.RawIOBase):
    """A file that cannot seek: zipfile then writes sizes behind the data (data descriptors)."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return self._file.write(data)  # type: ignore[arg-type]

    def close(self) -> None:
        self._file.close()
        super().close()


def record_of(files: dict[str, bytes], info: str = INFO) -> bytes:
    """Return a RECORD of the files, written with the csv module and hashlib alone."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.writerow((name, f"sha256={digest}", len(data)))
    rows.writerow((f"{info}/RECORD", "", ""))
    return text.getvalue().encode()


def write_official(
    folder: Path, files: dict[str, bytes] | None = None, *, streamed: bool = False, folders: bool = False
) -> Path:
    """Write an official wheel: deflated and stored members, executable ones, names that are not ASCII.

    Args:
        folder: where it goes.
        files: its members but RECORD, `PACKAGE` if left out.
        streamed: write data descriptors, as tools do that write to a pipe.
        folders: add members for folders.
    """
    members = dict(PACKAGE if files is None else files)
    members[f"{INFO}/RECORD"] = record_of(members)
    path = folder / NAME
    with _Pipe(path) if streamed else path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        if folders:
            archive.mkdir("vllm")
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2026, 11, 2, 12, 0, 1))
            info.external_attr = (0o100775 if name in EXECUTABLE else 0o100664) << 16
            info.create_system = 3
            archive.writestr(info, data, zipfile.ZIP_STORED if name in STORED else zipfile.ZIP_DEFLATED)
    return path


def pin_of(wheel: Path, version: str = VERSION) -> Pin:
    """Return a pin whose official wheel is that file."""
    data = wheel.read_bytes()
    return Pin(
        version=version,
        tag=f"v{version}",
        commit="4ba787ec9",
        released="2026-11-02",
        torch="2.14.0",
        triton="3.8.0",
        sdist=Artifact(f"vllm-{version}.tar.gz", sha256(b"sdist"), 5),
        wheel=Artifact(wheel.name, sha256(data), len(data)),
    )


def topic_source(name: str, patch: bytes = b"", files: dict[str, bytes] | None = None) -> TopicSource:
    """Return a topic with that patch and those new files."""
    topic = Topic(
        TopicId(name),
        f"The {name} topic",
        Kind.MEMORY,
        "What it does.",
        "Why it is there.",
        Upstream(UpstreamState.PENDING),
        Numbers(lossless=True),
        f"tests/probes/test_{name}.py",
        (),
        (Knob("VLLM_HQ_MAIN", "1", ("0", "1"), "0 keeps upstream's main."),),
    )
    return TopicSource(topic, patch, files or {})


def tiny_series(revision: int = 1) -> Series:
    """Return a series of a runtime topic with a guard and of one that patches ``vllm/main.py``."""
    runtime = topic_source(
        "runtime", files={"vllm/hq/__init__.py": b"", "vllm/hq/guard.py": b"def register():\n    pass\n"}
    )
    return Series(VERSION, revision, (runtime, topic_source("hook", PATCH)))


def write_patchsets(folder: Path, pin: Pin, revision: int = 1) -> Path:
    """Write a folder of patchsets with that one pin and the tiny series; returns it."""
    names = []
    for source in tiny_series().topics:
        name = source.topic.id
        names.append(f'[[topics]]\nid = "{name}"\n')
        home = folder / name
        home.mkdir(parents=True)
        (home / "topic.toml").write_text(TOPIC_TOML.format(name=name), encoding="utf-8")
        if source.patch:
            (home / f"{pin.version}.patch").write_bytes(source.patch)
        for path, data in source.files.items():
            (home / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            (home / "files" / path).write_bytes(data)
    (folder / "series.toml").write_text(f"revision = {revision}\n" + "\n".join(names), encoding="utf-8")
    keys = ("version", "tag", "commit", "released", "torch", "triton")
    lines = [
        'project = "vllm"',
        'repository = "https://example.org/vllm.git"',
        f'default = "{pin.version}"',
        "[[pins]]",
    ]
    lines += [f'{key} = "{getattr(pin, key)}"' for key in keys]
    for kind, artifact in (("sdist", pin.sdist), ("wheel", pin.wheel)):
        lines += [f"[pins.{kind}]", f'filename = "{artifact.filename}"', f'sha256 = "{artifact.sha256}"']
        lines.append(f"size = {artifact.size}")
    (folder / "pins.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
