"""What is said of servers, and how long they are waited for."""

from __future__ import annotations

import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.io.web import Patience, no_network, without_credentials
from toolkit.model.errors import EnvironmentUnfitError

WORD = st.text(st.characters(whitelist_categories=("L", "N"), max_codepoint=127), min_size=1, max_size=12)


def status_error(status: int, **headers: str) -> httpx.HTTPStatusError:
    """Return what httpx raises for that status."""
    request = httpx.Request("GET", "https://example.org/file")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(status, headers=headers, request=request))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/simple", "https://example.org/simple"),
        ("https://me:secret@example.org:8080/simple", "https://example.org:8080/simple"),
        ("https://secret@example.org/a?key=secret#secret", "https://example.org/a"),
        ("https://me:se/cret@example.org/a", "https://... (not a valid address)"),
        ("https://me:se#cret@example.org/a", "https://... (not a valid address)"),
        ("http://[bad", "http://... (not a valid address)"),
        ("/srv/repository", "/srv/repository"),
        ("file:///srv/repository", "file:///srv/repository"),
    ],
)
def test_addresses_are_shown_without_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@given(user=WORD, password=WORD.map("pw-{}-pw".format), path=WORD)
def test_no_password_is_ever_shown(user: str, password: str, path: str) -> None:
    url = f"https://{user}:{password}@example.org/{path}?token={password}"
    assert password not in without_credentials(url)
    assert path in without_credentials(url)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (status_error(404), "https://example.org/a: HTTP 404"),
        (httpx.ConnectError("Connection refused"), "https://example.org/a: Connection refused"),
        (httpx.ReadTimeout(""), "https://example.org/a: ReadTimeout"),
        (httpx.InvalidURL("Invalid port: 'secret'"), "https://example.org/a: not a valid address"),
    ],
)
def test_failures_name_the_server_and_the_reason(error: Exception, cause: str) -> None:
    said = no_network("the file cannot be downloaded", "https://me:secret@example.org/a", error)
    assert (said.what, said.cause, int(said.exit_code)) == ("the file cannot be downloaded", cause, 3)
    for remedy in ("HQTOOL_INDEX_URL", "hqtool fetch --file FILE", "cache"):
        assert remedy in said.fix


def test_an_unknown_certificate_has_its_own_remedy() -> None:
    error = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    said = no_network("the file cannot be downloaded", "https://example.org/a", error)
    assert said.fix.startswith("set SSL_CERT_FILE ")
    assert "hqtool fetch --file FILE" in said.fix


def test_pauses_double_and_end() -> None:
    patience = Patience(tries=4, pause=0.02)
    began = time.monotonic()
    assert [patience.wait(failures, httpx.ReadError("cut")) for failures in (1, 2, 3)] == [True] * 3
    assert time.monotonic() - began >= 0.02 + 0.04 + 0.08
    began = time.monotonic()
    assert not Patience(tries=4, pause=30).wait(4, httpx.ReadError("cut"))
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (httpx.ConnectError("refused"), True),
        (httpx.RemoteProtocolError("cut"), True),
        (EOFError("short"), True),
        (status_error(503), True),
        (status_error(429, **{"Retry-After": "0"}), True),
        (status_error(404), False),
        (status_error(401), False),
        (httpx.InvalidURL("bad"), False),
        (httpx.UnsupportedProtocol("ftp"), False),
        (httpx.TooManyRedirects("circle"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, again: bool) -> None:
    assert Patience(pause=0.001).wait(1, error) is again


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("HTTPS_PROXY", "nonsense://me:secret@127.0.0.1"),
        ("HTTP_PROXY", "http://me:se/secret@127.0.0.1"),
        ("SSL_CERT_FILE", "/absent.pem"),
    ],
)
def test_unusable_network_settings_are_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(EnvironmentUnfitError) as caught:
        Patience().client()
    assert variable in caught.value.fix
    assert caught.value.cause
    assert "secret" not in str(caught.value)
