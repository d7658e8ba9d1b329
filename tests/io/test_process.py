"""Running programs, and locks that outlive their holder's death as long as a program works on."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.io.process import free_memory, held, run, usable_cores


def test_both_outputs_are_kept_and_told_line_by_line(tmp_path: Path) -> None:
    lines: list[str] = []
    script = "import os, sys; print(os.getcwd(), flush=True); print('on stderr', file=sys.stderr); sys.exit(7)"
    done = run([sys.executable, "-c", script], folder=tmp_path, on_line=lines.append)
    assert done.code == 7
    assert lines == [f"{tmp_path}\n", "on stderr\n"]
    assert done.output == "".join(lines)


def test_bytes_that_are_no_utf8_do_not_stop_the_run() -> None:
    done = run([sys.executable, "-c", r"import sys; sys.stdout.buffer.write(b'a\xffb\n')"])
    assert done.output == "a\ufffdb\n"


def test_nobody_answers_questions() -> None:
    assert run([sys.executable, "-c", "print(repr(input()))"]).code != 0


def test_an_interrupted_run_ends_its_program() -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt(line)

    script = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt) as caught:
        run([sys.executable, "-c", script], on_line=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(caught.value)), 0)


def is_locked(lock: Path) -> bool:
    with lock.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_killed_holder_s_program_keeps_the_lock(tmp_path: Path) -> None:
    lock, stop = tmp_path / "lock", tmp_path / "stop"
    worker = f"import time, pathlib\nwhile not pathlib.Path({str(stop)!r}).exists(): time.sleep(0.02)"
    holder = (
        "import sys; from pathlib import Path; from toolkit.io.process import held, run\n"
        f"with held(Path({str(lock)!r})) as fd: print('held', flush=True); run([sys.executable, '-c', {worker!r}], "
        "inherit=(fd,))"
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "held\n"
        deadline = time.monotonic() + 20
        while not Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.send_signal(signal.SIGKILL)
    assert is_locked(lock)
    stop.touch()
    deadline = time.monotonic() + 20
    while is_locked(lock):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_lock_is_free_again(tmp_path: Path) -> None:
    with held(tmp_path / "new" / "lock"):
        assert is_locked(tmp_path / "new" / "lock")
    assert not is_locked(tmp_path / "new" / "lock")


def test_the_machine_has_something_to_run_on() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    assert free_memory() > 1 << 20
