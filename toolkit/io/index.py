"""Where the package registry is, and where on it the pinned files are.

The registry is whatever pip uses on this machine; no address of one is written in this project.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from packaging.utils import canonicalize_name

from toolkit.io.web import VARIABLE, Patience, no_network, without_credentials
from toolkit.model.errors import CheckError, EnvironmentUnfitError

_JSON = "application/vnd.pypi.simple.v1+json"
_PIP_SETTING = re.compile(r"(?P<section>:env:|global|install|download)\.index-url='(?P<url>[^']*)'")
_PIP_ORDER = (":env:", "download", "install", "global")
_ASK_PIP = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


def index_url() -> str:
    """Return the address of the registry's simple API.

    ``HQTOOL_INDEX_URL`` comes first, then what pip is configured for, then pip's own default.

    Raises:
        EnvironmentUnfitError: pip is not in this environment and the variable is not set.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return given
    settings = {match["section"]: match["url"] for match in _PIP_SETTING.finditer(_pip("-m", "pip", "config", "list"))}
    for section in _PIP_ORDER:
        if settings.get(section):
            return settings[section]
    return _pip("-c", _ASK_PIP).strip()


def _pip(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or "it prints nothing").splitlines()[-1]
        raise EnvironmentUnfitError(
            "the package registry's address is not known",
            cause=f"pip does not answer in {sys.prefix}: {said}",
            fix=f"install pip in this environment, or set {VARIABLE} to the registry's simple index",
        )
    return done.stdout


def find_urls(project: str, filenames: Iterable[str], *, patience: Patience | None = None) -> dict[str, str]:
    """Return the address of each file of a project.

    Args:
        project: its name on the registry.
        filenames: exact file names.
        patience: with the registry; the usual one if left out.

    Raises:
        CheckError: the registry lists no file of that name, or what it answers is no list.
        EnvironmentUnfitError: it does not answer.
    """
    page = f"{index_url().rstrip('/')}/{canonicalize_name(project)}/"
    answer = _get(page, project, patience or Patience())
    try:
        listed = _links(answer)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckError(
            f"the registry's page of {project} cannot be understood",
            cause=f"{without_credentials(page)} is neither form of the simple index",
            fix=f"set {VARIABLE} to the simple index of a registry",
        ) from error
    wanted = list(filenames)
    missing = [name for name in wanted if name not in listed]
    if missing:
        raise CheckError(
            f"the registry lists no {missing[0]}",
            cause=f"{without_credentials(page)} has {len(listed)} files, and this is none of them",
            fix=f"set {VARIABLE} to a registry that has it, or put the file in with hqtool fetch --file FILE",
        )
    return {name: _checked(listed[name]) for name in wanted}


def _get(page: str, project: str, patience: Patience) -> httpx.Response:
    failures = 0
    with patience.client() as client:
        while True:
            try:
                answer = client.get(page, headers={"Accept": f"{_JSON}, text/html;q=0.5"})
                return answer.raise_for_status()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures += 1
                # Who cannot connect at all has no network, and wants to know it now.
                if isinstance(error, httpx.ConnectError) or not patience.wait(failures, error):
                    raise no_network(f"the registry's page of {project} cannot be read", page, error) from error


def _links(answer: httpx.Response) -> dict[str, str]:
    """Return file name -> absolute address, from either form of the simple API (PEP 691, PEP 503)."""
    base = str(answer.url)
    if answer.headers.get("Content-Type", "").startswith(_JSON):
        files: list[dict[str, Any]] = answer.json()["files"]
        found = [(str(entry["filename"]), str(entry["url"])) for entry in files]
    else:
        reader = _Anchors()
        reader.feed(answer.text)
        reader.close()
        found = [(name.strip(), target) for name, target in reader.found]
    return {name: _same_login(urljoin(base, target).partition("#")[0], base) for name, target in found}


def _same_login(url: str, base: str) -> str:
    """Return the address with the index's user name and password when it is on the same server and has none."""
    link, page = urlsplit(url), urlsplit(base)
    login, _, server = page.netloc.rpartition("@")
    if login and (link.scheme, link.netloc) == (page.scheme, server):
        return link._replace(netloc=page.netloc).geturl()
    return url


class _Anchors(HTMLParser):
    """Collects (text, href) of every link."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._target: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._target = dict(attrs).get("href")

    def handle_data(self, data: str) -> None:
        if self._target is not None and data.strip():
            self.found.append((data, self._target))
            self._target = None


def _checked(url: str) -> str:
    if urlsplit(url).scheme not in ("https", "http"):
        raise CheckError(
            f"the registry names an address that is not HTTP: {without_credentials(url)}",
            cause="hqtool downloads over HTTP and HTTPS only",
            fix="put the file in with hqtool fetch --file FILE",
        )
    return url
