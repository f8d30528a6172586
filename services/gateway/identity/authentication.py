"""How a request is given its caller."""

from typing import Protocol

from aiohttp import web

from services.gateway.identity.caller import LOCAL_CALLER, Caller


class Authentication(Protocol):
    """One of the modes of authentication."""

    async def caller(self, request: web.Request) -> Caller | None:
        """Who sent the request; `None` when nobody is signed in. Raises RequestFailed when that cannot be told."""


class Disabled:
    """Mode `disabled`: everybody who passes the origin rules is the local user."""

    async def caller(self, request: web.Request) -> Caller | None:  # noqa: ARG002 - the other mode looks at it
        """The local user."""
        return LOCAL_CALLER
