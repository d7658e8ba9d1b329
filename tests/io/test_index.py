"""Where the registry is, and what its pages say, in both forms of the simple API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.io.hostile_server import Answer, HostileServer, serving
from tests.small_release import closed_port
from toolkit.io.index import find_urls, index_url
from toolkit.io.web import Patience
from toolkit.model.errors import CheckError, EnvironmentUnfitError

NAME = "vllm-1.0.tar.gz"
PAGE = "/simple/my-project/"
JSON_TYPE = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
QUICK = Patience(pause=0.001)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Pip with no configuration at all."""
    for name in [name for name in os.environ if name.startswith("PIP_") or name == "HQTOOL_INDEX_URL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return monkeypatch


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        monkeypatch.setenv("HQTOOL_INDEX_URL", f"{running.url}/simple")
        yield running


def json_page(*files: tuple[str, str]) -> Answer:
    """Return the page of PEP 691 with these (name, address)."""
    listed = [{"filename": name, "url": url, "hashes": {}, "yanked": "broken"} for name, url in files]
    return Answer(json.dumps({"meta": {"api-version": "1.0"}, "files": listed}).encode(), headers=JSON_TYPE)


def html_page(*links: str) -> Answer:
    """Return the page of PEP 503 with these links."""
    body = "<!DOCTYPE html><html><head><title>Links</title></head><body>" + "<br/>\n".join(links) + "</body></html>"
    return Answer(body.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def test_the_variable_comes_first(no_settings: pytest.MonkeyPatch) -> None:
    no_settings.setenv("PIP_INDEX_URL", "https://pip.example.org/simple")
    no_settings.setenv("HQTOOL_INDEX_URL", "https://hqtool.example.org/simple")
    assert index_url() == "https://hqtool.example.org/simple"


def test_pips_settings_count_in_pips_order(no_settings: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    no_settings.setenv("PIP_CONFIG_FILE", str(settings))
    for section in ("global", "install", "download"):
        with settings.open("a", encoding="utf-8") as file:
            file.write(f"[{section}]\nindex-url = https://{section}.example.org/simple\n")
        assert index_url() == f"https://{section}.example.org/simple"
    no_settings.setenv("PIP_INDEX_URL", "https://environment.example.org/simple")
    assert index_url() == "https://environment.example.org/simple"


def test_pips_own_default_is_the_last_resort(no_settings: pytest.MonkeyPatch) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--help"], capture_output=True, text=True, check=True
    )
    assert f"(default {index_url()})" in " ".join(shown.stdout.split())


def test_an_environment_without_pip_is_named(no_settings: pytest.MonkeyPatch, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    no_settings.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(EnvironmentUnfitError) as caught:
        index_url()
    assert "No module named pip" in caught.value.cause
    assert "HQTOOL_INDEX_URL" in caught.value.fix


def test_both_forms_are_asked_for_and_json_preferred(server: HostileServer) -> None:
    server.script(PAGE, json_page((NAME, "/files/x")))
    find_urls("my-project", [NAME])
    assert server.asked[0].accept == "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@pytest.mark.parametrize("project", ["my-project", "My.Project", "my__project"])
def test_project_names_are_normalized(server: HostileServer, project: str) -> None:
    server.script(PAGE, json_page((NAME, "/files/x")))
    assert find_urls(project, [NAME]) == {NAME: f"{server.url}/files/x"}


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("../../packages/ab/{}", "/packages/ab/{}"),
        ("/packages/{}", "/packages/{}"),
        ("{}#sha256=00", "/simple/my-project/{}"),
        ("https://files.example.org/{}", "https://files.example.org/{}"),
        ("//files.example.org/{}", "http://files.example.org/{}"),
    ],
)
def test_addresses_are_resolved_in_both_forms(server: HostileServer, stated: str, found: str) -> None:
    expected = found.format(NAME)
    expected = expected if expected.startswith("http") else server.url + expected
    server.script(PAGE, json_page(("other.whl", "/no"), (NAME, stated.format(NAME))))
    assert find_urls("my-project", [NAME]) == {NAME: expected}
    link = f'<a data-requires-python="&gt;=3.10" href="{stated.format(NAME)}" data-yanked="">\n {NAME} </a>'
    server.script(PAGE, html_page('<a href="/no">other.whl</a>', "<a>nowhere</a>", link))
    assert find_urls("my-project", [NAME]) == {NAME: expected}


def test_relative_addresses_start_from_the_page_that_answered(server: HostileServer) -> None:
    server.script(PAGE, Answer(status=301, headers={"Location": "/mirror/simple/my-project/"}))
    server.script("/mirror/simple/my-project/", json_page((NAME, f"../../files/{NAME}")))
    assert find_urls("my-project", [NAME]) == {NAME: f"{server.url}/mirror/files/{NAME}"}


def test_a_missing_file_is_named(server: HostileServer) -> None:
    server.script(PAGE, json_page(("vllm-0.9.tar.gz", "/files/x")))
    with pytest.raises(CheckError) as caught:
        find_urls("my-project", ["vllm-0.9.tar.gz", NAME])
    assert caught.value.what == f"the registry lists no {NAME}"
    assert f"{server.url}{PAGE} has 1 files" in caught.value.cause


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "javascript:x"])
def test_other_protocols_are_refused(server: HostileServer, url: str) -> None:
    server.script(PAGE, json_page((NAME, url)))
    with pytest.raises(CheckError, match="not HTTP"):
        find_urls("my-project", [NAME])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"files": 3}', b'{"files": [3]}', b'{"files": [{"url": "x"}]}', b"\xff\xfe\0"]
)
def test_a_page_that_is_no_index_is_said_to_be_none(server: HostileServer, body: bytes) -> None:
    server.script(PAGE, Answer(body, headers=JSON_TYPE))
    with pytest.raises(CheckError) as caught:
        find_urls("my-project", [NAME])
    assert caught.value.what == "the registry's page of my-project cannot be understood"


def test_a_busy_registry_is_asked_again(server: HostileServer) -> None:
    cut = Answer(b"x" * 1000, cut=10, headers=JSON_TYPE)
    server.script(PAGE, Answer(status=503), cut, Answer(status=429), json_page((NAME, "/files/x")))
    assert find_urls("my-project", [NAME], patience=QUICK) == {NAME: f"{server.url}/files/x"}
    assert len(server.asked) == 4


def test_an_unknown_project_is_not_asked_for_again(server: HostileServer) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        find_urls("my-project", [NAME])
    assert caught.value.cause == f"{server.url}{PAGE}: HTTP 404"
    assert len(server.asked) == 1


def test_without_a_network_the_answer_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    began = time.monotonic()
    with pytest.raises(EnvironmentUnfitError) as caught:
        find_urls("my-project", [NAME], patience=Patience(pause=30))
    assert time.monotonic() - began < 10
    assert "hqtool fetch --file FILE" in caught.value.fix


@pytest.mark.parametrize("address", ["nonsense", "http://[bad/simple", "file:///srv/simple", "http://me:pass/word@x/"])
def test_an_address_that_is_none_is_an_error_like_others(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HQTOOL_INDEX_URL", address)
    with pytest.raises(EnvironmentUnfitError) as caught:
        find_urls("my-project", [NAME], patience=QUICK)
    assert "pass" not in str(caught.value)


def test_the_login_goes_to_the_index_and_its_files_and_nowhere_else(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HQTOOL_INDEX_URL", f"{server.url.replace('//', '//me:secret@')}/simple")
    server.script(PAGE, json_page((NAME, "/files/x"), ("other", "http://localhost:1/x")))
    found = find_urls("my-project", [NAME, "other"])
    assert server.asked[0].login == f"Basic {b64encode(b'me:secret').decode()}"
    assert found[NAME] == f"{server.url.replace('//', '//me:secret@')}/files/x"
    assert found["other"] == "http://localhost:1/x"
    with pytest.raises(CheckError) as caught:
        find_urls("my-project", ["absent"])
    assert "secret" not in str(caught.value)


@pytest.mark.network
def test_the_real_registry_has_the_pinned_files() -> None:
    names = ["vllm-0.33.0.tar.gz", "vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl", "vllm-0.32.0.tar.gz"]
    found = find_urls("vllm", names)
    assert [url.rpartition("/")[2] for url in found.values()] == names
    assert {url.partition(":")[0] for url in found.values()} <= {"http", "https"}
