"""The build of the kernels as files: which sources, under which names, and the ``build.ninja`` that compiles them.

Every path in the build folder is relative, and the compiler and the headers are reached through links in it. Assertions
and kernel names carry the paths that the compiler saw; so they are the same on every machine.
"""

from __future__ import annotations

import re
import shlex

from toolkit.engine.toolchain import abi_macro, code_names
from toolkit.model.ids import TopicId
from toolkit.model.toolchain import Toolchain
from toolkit.model.topic import Series

LIBRARY = "_hq_C.abi3.so"
COMPILED = (".cu", ".cpp")
JOB_BYTES = 1 << 30
"""Memory to allow one compiler; 442 MiB were measured for a source with one kernel."""

NOTHING_EXPORTED = "{ local: *; };\n"
"""The linker's version script: operators register themselves at load, so no symbol has to be visible."""

_DEFINES = re.compile(r"""\.def\(\s*"(\w+)\(""")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

_NVCC_FLAGS = "-std=c++20 -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall -Isrc --compress-mode size"
"""Without torch's headers: patchsets/runtime/csrc/op.h says why."""
_CXX_FLAGS = "-std=c++20 -O2 -fPIC -fvisibility=hidden -Wall -DUSE_CUDA -Isrc -isystem include -isystem cuda/include"

_RULES = """\
# Written by hqtool.
ninja_required_version = 1.10

rule nvcc
  command = cuda/bin/nvcc -ccbin {cxx} {nvcc_flags} -frandom-seed=$in -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $in
rule cxx
  command = {cxx} {cxx_flags} -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $in
rule stub
  command = {cxx} -shared -fPIC -nostdlib -Wl,-soname,libtorch.so -x c++ $in -o $out
  description = $out
rule link
  command = {cxx} -shared -s -Wl,--build-id=none,--version-script=exports.map -o $out $in {libraries}
  description = $out
"""


def kernel_files(series: Series) -> dict[str, bytes]:
    """Return path in the build folder -> bytes of every CUDA source and header: ``src/<topic>/<file>``."""
    return {
        f"src/{source.topic.id}/{name}": data
        for source in series.topics
        for name, data in sorted(source.kernels.items())
    }


def operators(series: Series) -> dict[TopicId, tuple[str, ...]]:
    """Return topic -> names of the operators that its sources define, for topics that define any.

    Read from the registrations, ``m.def("name(...) -> ...")``.
    """
    found = {}
    for source in series.topics:
        names = set()
        for data in source.kernels.values():
            names.update(_DEFINES.findall(_COMMENT.sub("", data.decode("utf-8", "replace"))))
        if names:
            found[source.topic.id] = tuple(sorted(names))
    return found


def object_of(source: str) -> str:
    """Return the object that a source is compiled to: ``src/<topic>/a.cu`` -> ``obj/<topic>/a.cu.o``."""
    return f"obj/{source.removeprefix('src/')}.o"


def render(files: dict[str, bytes], toolchain: Toolchain, *, arches: tuple[str, ...], stable_abi: str) -> str:
    """Return the text of ``build.ninja``.

    Args:
        files: what `kernel_files` returned.
        toolchain: its compiler lies at the link ``cuda``, its headers at ``include``.
        arches: compute capabilities, ascending.
        stable_abi: oldest torch whose ABI may be used.
    """
    sources = [path for path in files if path.endswith(COMPILED)]
    major = toolchain.nvcc_version.split(".")[0]
    # libtorch is kept although nothing seems to need it: in a CUDA build of torch it is what brings libtorch_cuda.
    libraries = (
        "-Lstub -Wl,--no-as-needed -ltorch -Wl,--as-needed "
        f"-L{_shell('cuda/' + toolchain.cudart)} -l:libcudart.so.{major}"
    )
    text = _RULES.format(
        cxx=_shell(toolchain.cxx),
        nvcc_flags=f"{_NVCC_FLAGS} {_generated_code(arches)}",
        cxx_flags=f"{_CXX_FLAGS} -DTORCH_TARGET_VERSION={abi_macro(stable_abi)}",
        libraries=libraries,
    )
    lines = [f"build stub/libtorch.so: stub {_ninja('stub/empty.cpp')}"]
    for source in sources:
        rule = "nvcc" if source.endswith(".cu") else "cxx"
        lines.append(f"build {_ninja(object_of(source))}: {rule} {_ninja(source)}")
    objects = " ".join(_ninja(object_of(source)) for source in sources)
    lines.append(f"build {LIBRARY}: link {objects} | stub/libtorch.so exports.map")
    lines.append(f"default {LIBRARY}")
    return text + "\n".join(lines) + "\n"


def job_count(cores: int, free_bytes: int) -> int:
    """Return how many compilers to run at once: one a core, fewer when memory is short, at least one."""
    return max(1, min(cores, free_bytes // JOB_BYTES))


def _generated_code(arches: tuple[str, ...]) -> str:
    newest = arches[-1].replace(".", "")
    return " ".join(
        f"-gencode arch=compute_{newest if code.startswith('compute') else code.removeprefix('sm_')},code={code}"
        for code in code_names(arches)
    )


def _shell(text: str) -> str:
    """Quote a word for the shell that ninja starts, inside a ninja variable."""
    return shlex.quote(text).replace("$", "$$")


def _ninja(path: str) -> str:
    return re.sub(r"([$ :])", r"$\1", path)
