"""The session cookie: its name, its life, and when it is only for TLS."""

from aiohttp import web

from services.gateway.identity.sessions import LIFETIME_HOURS

DEFAULT_PORT = 8080

RENEWED = web.RequestKey("renewed", str)
"""The cookie's value on a request whose session was moved on: its answer carries the cookie again."""


def cookie_name(port: int) -> str:
    """What the cookie of a gateway on this port is called. Browsers share cookies between the ports of a host, so that
    a gateway on another port than the usual one has a cookie of its own.
    """
    return "kandev_session" if port == DEFAULT_PORT else f"kandev_session_{port}"


class SessionCookie:
    """The cookie of one gateway. `behind_proxy`: see the setting."""

    def __init__(self, port: int, *, behind_proxy: bool) -> None:
        self.name = cookie_name(port)
        self._behind_proxy = behind_proxy

    def read(self, request: web.Request) -> str | None:
        """Its value on a request."""
        return request.cookies.get(self.name) or None

    def give(self, request: web.Request, response: web.StreamResponse, value: str) -> None:
        """Has the browser keep it."""
        response.set_cookie(
            self.name,
            value,
            max_age=LIFETIME_HOURS * 3600,
            path="/",
            httponly=True,
            samesite="Lax",
            secure=self._is_tls(request),
        )

    def take(self, request: web.Request, response: web.StreamResponse) -> None:
        """Has the browser forget it."""
        response.del_cookie(self.name, path="/", httponly=True, samesite="Lax", secure=self._is_tls(request))

    async def renew(self, request: web.Request, response: web.StreamResponse) -> None:
        """Gives it again where its session was moved on, unless the answer says something else of it."""
        value = request.get(RENEWED)
        if value is not None and self.name not in response.cookies:
            self.give(request, response, value)
            # By the time that this signal is sent, cookies have become headers.
            response.headers.add("Set-Cookie", response.cookies[self.name].OutputString())

    def _is_tls(self, request: web.Request) -> bool:
        forwarded = request.headers.get("X-Forwarded-Proto") if self._behind_proxy else None
        return request.secure if forwarded is None else forwarded.strip().lower() == "https"
