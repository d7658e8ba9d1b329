"""Starts programs, and says what the machine has to run them with."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolkit.model.errors import EnvironmentUnfitError


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended, and what it printed on both its outputs."""

    code: int
    output: str


def run(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    inherit: Sequence[int] = (),
) -> Done:
    """Run a program to its end; end it too when this process is interrupted.

    Args:
        command: the program and its arguments.
        folder: where it runs.
        environment: all of its environment; this process's own if left out.
        on_line: is told every line as soon as it is printed.
        inherit: file descriptors that the program keeps open.

    Raises:
        EnvironmentUnfitError: the program is missing or cannot be executed.
    """
    words = [str(word) for word in command]
    try:
        started = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=inherit,
        )
    except OSError as error:
        raise EnvironmentUnfitError(
            f"{words[0]} cannot be run", cause=error.strerror or str(error), fix="check the path and its permissions"
        ) from error
    lines = []
    with started:
        try:
            for line in started.stdout or ():
                lines.append(line)
                if on_line is not None:
                    on_line(line)
        except BaseException:
            started.terminate()
            raise
    return Done(started.returncode, "".join(lines))


@contextmanager
def held(lock: Path) -> Iterator[int]:
    """Hold a lock file; yield its descriptor.

    A program that inherits the descriptor holds the lock too. If this process is killed, the next run waits for that
    program instead of working in the same folder beside it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield opened.fileno()


def usable_cores() -> int:
    """Return the processors that this process may use."""
    return len(os.sched_getaffinity(0))


def free_memory() -> int:
    """Return the bytes of memory that can be used without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
