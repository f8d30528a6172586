"""Why a gateway could not be reached, in words for people."""

import aiohttp

from shared.reasons import NO_HOST, NO_TIME
from shared.reasons import reason as plain_reason

# The first kind that fits; the narrower ones come first.
_BY_KIND: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, NO_TIME),
    (aiohttp.ClientConnectorDNSError, NO_HOST),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted here"),
    (aiohttp.ClientSSLError, "it does not speak TLS there"),
    (aiohttp.InvalidURL, "that is no URL of a gateway"),
    (aiohttp.ServerDisconnectedError, "the connection was closed without an answer"),
    (aiohttp.ClientPayloadError, "the connection was closed without an answer"),
)


def reason(error: BaseException) -> str:
    """Half a sentence about an error of aiohttp or of the operating system."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"HTTP status {error.status}"
    for kind, sentence in _BY_KIND:
        if isinstance(error, kind):
            return sentence
    return plain_reason(error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error)
