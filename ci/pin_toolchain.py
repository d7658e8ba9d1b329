"""Write the list of headers in patchsets/toolchain.toml anew, after its [torch] table was changed by hand.

    .venv/bin/python ci/pin_toolchain.py

Takes whole folders of torch's stable ABI, so that a new kernel may include any part of it. What it prints is to be read
before it is committed: these bytes are compiled into the kernels.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.io.index import find_urls
from toolkit.io.remote_zip import read_members
from toolkit.io.terminal import make_progress
from toolkit.jobs.toolchain import load_toolchain
from toolkit.model.ids import sha256

PATCHSETS = Path(__file__).parent.parent / "patchsets"
INCLUDE = "torch/include/"
FOLDERS = ("torch/csrc/stable/", "torch/csrc/inductor/aoti_torch/c/", "torch/headeronly/")
FILES = ("torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h",)
START = "headers = [\n"


def wanted(member: str) -> bool:
    """Say whether a member of the wheel is one of the headers."""
    path = member.removeprefix(INCLUDE)
    return path != member and path.endswith(".h") and (path.startswith(FOLDERS) or path in FILES)


def main() -> None:
    """Read the headers out of the wheel and replace the list."""
    torch = load_toolchain(PATCHSETS).torch
    url = find_urls(torch.project, [torch.filename])[torch.filename]
    members = read_members(url, wanted, size=torch.size, progress=make_progress(quiet=False))
    lines = [
        f'    {{ path = "{name.removeprefix(INCLUDE)}", sha256 = "{sha256(data)}" }},\n'
        for name, data in sorted(members.items())
    ]
    page = PATCHSETS / "toolchain.toml"
    before, _, after = page.read_text(encoding="utf-8").partition(START)
    page.write_text(before + START + "".join(lines) + after[after.index("]\n") :], encoding="utf-8")
    print(f"{len(lines)} headers, {sum(map(len, members.values()))} bytes")


if __name__ == "__main__":
    main()
