"""The options of every command that compiles: which compilers, and for which cards."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


def toolchain_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add ``--arch``, ``--nvcc`` and ``--cxx`` to a command; they reach it together, as ``options``."""

    @click.option("--arch", default="8.6", show_default=True, metavar="LIST", help="GPU architectures: 8.6,9.0.")
    @click.option(
        "--nvcc",
        default="",
        envvar="HQTOOL_NVCC",
        metavar="PATH",
        help="Use this nvcc, or 'system' for the machine's, instead of the pinned one.",
    )
    @click.option("--cxx", default="", envvar="HQTOOL_CXX", metavar="PATH", help="Use this g++.")
    @functools.wraps(command)
    def with_options(*arguments: Any, arch: str, nvcc: str, cxx: str, **named: Any) -> int:
        from toolkit.engine.toolchain import parse_arches
        from toolkit.model.toolchain import ToolchainOptions

        return command(*arguments, options=ToolchainOptions(nvcc, cxx, parse_arches(arch)), **named)

    return with_options
