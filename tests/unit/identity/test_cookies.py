"""The session cookie's name, and when it is for TLS alone."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from services.gateway.identity.cookies import SessionCookie


@pytest.mark.parametrize(("port", "name"), [(8080, "kandev_session"), (8081, "kandev_session_8081")])
def test_a_gateway_on_another_port_has_a_cookie_of_its_own(port: int, name: str) -> None:
    cookie = SessionCookie(port, behind_proxy=False)
    request = make_mocked_request("GET", "/", headers={"Cookie": "kandev_session=a; kandev_session_8081=b"})
    assert (cookie.name, cookie.read(request)) == (name, "a" if port == 8080 else "b")


@pytest.mark.parametrize(
    ("behind_proxy", "forwarded", "secure"),
    [
        (True, "https", True),
        (True, " HTTPS ", True),
        (True, "http", False),
        (True, None, False),
        (False, "https", False),
        (False, None, False),
    ],
)
def test_it_is_for_tls_where_a_trusted_proxy_says_so(behind_proxy: bool, forwarded: str | None, secure: bool) -> None:
    cookie, response = SessionCookie(8080, behind_proxy=behind_proxy), web.Response()
    headers = {} if forwarded is None else {"X-Forwarded-Proto": forwarded}
    cookie.give(make_mocked_request("GET", "/", headers=headers), response, "value")
    assert bool(response.cookies["kandev_session"]["secure"]) == secure
