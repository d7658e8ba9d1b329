"""How servers are spoken to: patient with broken connections, and with messages that show no password."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx

from toolkit.model.errors import EnvironmentUnfitError

VARIABLE = "HQTOOL_INDEX_URL"
"""Names the package registry."""
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_NEVER = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects)
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for.

    Attributes:
        tries: failures in a row, without a single new byte, after which it is given up.
        pause: seconds before the first new try; doubled for each further one.
        timeout: seconds without a byte after which a connection counts as broken.
    """

    tries: int = 5
    pause: float = 1.0
    timeout: float = 30.0

    def client(self) -> httpx.Client:
        """Return a client that follows redirects, uses the environment's proxies and wants bodies uncompressed.

        Raises:
            EnvironmentUnfitError: the proxy or certificate settings of this machine cannot be used.
        """
        try:
            return httpx.Client(follow_redirects=True, timeout=self.timeout, headers={"Accept-Encoding": "identity"})
        except (httpx.InvalidURL, ValueError, ImportError, OSError) as error:
            raise EnvironmentUnfitError(
                "no connection can be made with this machine's network settings",
                cause=_reason(error),
                fix="correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE; a proxy must be an http:// address",
            ) from error

    def wait(self, failures: int, error: Exception) -> bool:
        """Pause after a failure, as long as the server asks for in seconds (30 at most), else by the rule above.

        Args:
            failures: how many there were in a row, this one included.
            error: the last one.

        Returns:
            whether a new try makes sense; if not, no time has passed.
        """
        if failures >= self.tries or not _may_pass(error):
            return False
        stated = error.response.headers.get("Retry-After", "") if isinstance(error, httpx.HTTPStatusError) else ""
        seconds = float(stated) if stated.isdecimal() else self.pause * 2 ** (failures - 1)
        time.sleep(min(seconds, _LONGEST_PAUSE))
        return True


def without_credentials(url: str) -> str:
    """Return the address without user name, password and query, fit for a message."""
    try:
        parts = urlsplit(url)
        # A password with an unescaped / or # ends the host part early: what follows the colon is then no port.
        parts.port  # noqa: B018
    except ValueError:
        return f"{url.partition('://')[0]}://... (not a valid address)"
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def no_network(what: str, url: str, error: Exception) -> EnvironmentUnfitError:
    """Return the error for a server that does not answer as it should."""
    reason = _reason(error)
    fix = f"check the network and {VARIABLE}"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        fix = "set SSL_CERT_FILE to the certificates that your network uses"
    return EnvironmentUnfitError(
        what,
        cause=f"{without_credentials(url)}: {reason}",
        fix=f"{fix}; without a network, put files in with hqtool fetch --file FILE"
        " (what is in the cache already needs none)",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code}"
    if isinstance(error, httpx.InvalidURL):
        return "not a valid address"  # httpx quotes parts of it, and a password may be one
    return str(error).partition("\n")[0] or type(error).__name__


def _may_pass(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _AGAIN
    return not isinstance(error, _NEVER)
