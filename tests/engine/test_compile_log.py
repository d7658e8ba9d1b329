"""Compile logs against what ninja 1.13, nvcc 13.0.88 and g++ 12.2 really printed (less blanks at line ends)."""

from __future__ import annotations

from toolkit.engine.compile_log import build_error, failures, finished_steps
from toolkit.model.errors import CheckError, EnvironmentUnfitError

LOG = r"""
[1/8] src/alpha/two.cpp
[2/8] src/alpha/one.cpp
[3/8] src/beta/b.cpp
FAILED: [code=1] obj/beta/b.cpp.o
g++ -Isrc -fPIC -c src/beta/b.cpp -o obj/beta/b.cpp.o
In file included from src/beta/b.cpp:1:
src/alpha/bad.h: In function 'int shared()':
src/alpha/bad.h:1:30: error: 'missing_thing' was not declared in this scope
    1 | inline int shared() { return missing_thing; }
      |                              ^~~~~~~~~~~~~
[4/8] src/beta/c.cpp
FAILED: [code=1] obj/beta/c.cpp.o
g++ -Isrc -fPIC -c src/beta/c.cpp -o obj/beta/c.cpp.o
src/beta/c.cpp:1:10: fatal error: nowhere.h: No such file or directory
    1 | #include <nowhere.h>
      |          ^~~~~~~~~~~
compilation terminated.
[5/8] src/alpha/a.cu
FAILED: [code=2] obj/alpha/a.cu.o
cuda/bin/nvcc -ccbin g++ -Isrc -c src/alpha/a.cu -o obj/alpha/a.cu.o
src/alpha/a.cu(2): error: identifier "undefined_name" is undefined
  __attribute__((global)) void k(int* p) { *p = undefined_name; }
                                                ^

src/alpha/a.cu(3): error: expected a ";"
  void f(int* p) { k<<<1, 1>>>(p) }
                                  ^

2 errors detected in the compilation of "src/alpha/a.cu".
[6/8] src/beta/h.cu
FAILED: [code=2] obj/beta/h.cu.o
cuda/bin/nvcc -ccbin g++ -Isrc -c src/beta/h.cu -o obj/beta/h.cu.o
src/alpha/bad.h(1): error: identifier "missing_thing" is undefined
  inline int shared() { return missing_thing; }
                               ^

1 error detected in the compilation of "src/beta/h.cu".
[7/8] lib.so
FAILED: [code=1] lib.so
g++ -shared obj/alpha/one.cpp.o obj/alpha/two.cpp.o -o lib.so
/usr/bin/ld: obj/alpha/two.cpp.o: in function `same()':
two.cpp:(.text+0x0): multiple definition of `same()'; obj/alpha/one.cpp.o:one.cpp:(.text+0x0): first defined here
collect2: error: ld returned 1 exit status
[8/8] src/beta/p.cu
FAILED: [code=255] obj/beta/p.cu.o
cuda/bin/nvcc -ccbin g++ -Isrc -c src/beta/p.cu -o obj/beta/p.cu.o
ptxas /tmp/tmpxft_00001ca5_00000000-6_p.ptx, line 26; error   : Not a name of any known instruction: 'nonsense'
ptxas fatal   : Ptx assembly aborted due to errors
ninja: build stopped: cannot make progress due to previous errors.
"""


def test_every_failed_step_is_found_once_and_no_other() -> None:
    assert [(failure.topic, failure.file) for failure in failures(LOG)] == [
        ("alpha", "bad.h"),
        ("beta", "c.cpp"),
        ("alpha", "a.cu"),
        ("alpha", "bad.h"),
        ("", "lib.so"),
        ("beta", "p.cu"),
    ]


def test_the_owner_of_the_wrong_file_is_named_not_the_one_who_includes_it() -> None:
    host, device = failures(LOG)[0], failures(LOG)[3]
    assert host.error == "src/alpha/bad.h:1:30: error: 'missing_thing' was not declared in this scope"
    assert device.error == 'src/alpha/bad.h(1): error: identifier "missing_thing" is undefined'
    assert host.topic == device.topic == "alpha"


def test_the_compiler_speaks_in_full_and_alone() -> None:
    lines = failures(LOG)[2].lines
    assert lines[0] == 'src/alpha/a.cu(2): error: identifier "undefined_name" is undefined'
    assert lines[-1] == '2 errors detected in the compilation of "src/alpha/a.cu".'
    assert not [line for line in lines if "nvcc" in line or line.startswith(("[", "FAILED"))]


def test_an_error_without_a_place_belongs_to_the_source_compiled() -> None:
    last = failures(LOG)[-1]
    assert (last.topic, last.file) == ("beta", "p.cu")
    assert "Not a name of any known instruction: 'nonsense'" in last.error


def test_a_link_that_fails_names_the_symbol() -> None:
    assert "multiple definition of `same()'" in failures(LOG)[4].error


def test_older_ninja_gives_no_code() -> None:
    old = LOG.replace("[code=1] ", "").replace("[code=2] ", "").replace("[code=255] ", "")
    assert failures(old) == failures(LOG)


def test_status_lines() -> None:
    assert finished_steps("[3/8] src/beta/b.cpp\n") == (3, 8)
    assert finished_steps("src/alpha/a.cu[3]: error") is None


def one_step(lines: str) -> str:
    return f"[1/1] src/alpha/a.cu\nFAILED: [code=2] obj/alpha/a.cu.o \ncuda/bin/nvcc -c\n{lines}ninja: build stopped.\n"


def test_one_failure_is_a_finding_about_its_topic() -> None:
    error = build_error(one_step('src/alpha/a.cu(3): error: expected a ";"\n'), "/cache/kernels/1")
    assert isinstance(error, CheckError)
    assert error.what == "topic alpha: a.cu does not compile"
    assert error.cause == 'src/alpha/a.cu(3): error: expected a ";"'
    assert error.details == ('src/alpha/a.cu(3): error: expected a ";"',)
    assert "--without" in error.fix


def test_several_failures_are_all_shown() -> None:
    error = build_error(LOG, "/cache/kernels/1")
    assert error.what == "6 steps of the kernels' build failed, in topic alpha, beta"
    assert "c.cpp of beta:" in error.details and "lib.so of no topic:" in error.details


def test_long_output_is_cut() -> None:
    error = build_error(one_step("".join(f"src/alpha/a.cu({n}): error: number {n}\n" for n in range(100))), "/c")
    assert len(error.details) == 41
    assert error.details[-1] == "... 60 more lines"


def test_a_full_disk_is_the_machine_s_fault() -> None:
    output = one_step("x.s: Fatal error: can't write 24 bytes to section: No space left on device\n")
    error = build_error(output, "/cache/kernels/1")
    assert isinstance(error, EnvironmentUnfitError)
    assert "no space left" in error.cause


def test_ninja_s_own_failure_is_the_machine_s_fault() -> None:
    error = build_error("ninja: error: build.ninja:7: expected build command name\n", "/cache/kernels/1")
    assert isinstance(error, EnvironmentUnfitError)
    assert error.details == ("ninja: error: build.ninja:7: expected build command name",)
    assert "/cache/kernels/1" in error.fix
