"""Signing in and out, and what a user does with their own credentials."""

import logging

from aiohttp import web
from pydantic import Field

from services.gateway.http.bodies import small_body, told
from services.gateway.http.keys import ACCOUNTS, AUTHENTICATION, CALLER
from services.gateway.http.routes import Answer, Route, plain_errors
from services.gateway.identity.accounts import MOST_NAME_CHARACTERS
from services.gateway.identity.authentication import Mode
from services.gateway.identity.caller import Caller
from services.gateway.identity.passwords import LEAST_CHARACTERS, MOST_BYTES
from services.gateway.identity.sessions import credential_of, session_of
from services.gateway.identity.signing_in import SigningIn
from services.gateway.identity.tokens import LONGEST_DAYS, AccessToken
from services.gateway.identity.tokens import credential_of as token_credential
from shared.contracts.base import Contract
from shared.contracts.errors import RequestFailed
from shared.times import format_microseconds

logger = logging.getLogger(__name__)

ACCOUNTS_OFF = "authentication is disabled here, so there are no accounts to use: set KANDEV_AUTH=enabled"


class Login(Contract):
    """A name and its password."""

    username: str = Field(min_length=1, max_length=MOST_NAME_CHARACTERS, pattern=r"^[^\x00-\x1f\x7f]+$")
    password: str = Field(max_length=MOST_BYTES)


class NewPassword(Contract):
    """Another password of one's own, and proof that it is one's own."""

    current_password: str = Field(max_length=MOST_BYTES)
    new_password: str = Field(min_length=LEAST_CHARACTERS, max_length=MOST_BYTES)


class NewToken(Contract):
    """A token to make. `expires_in_days` absent: until it is revoked."""

    name: str = Field(default="", max_length=MOST_NAME_CHARACTERS)
    expires_in_days: int | None = Field(default=None, ge=1, le=LONGEST_DAYS)


class UserTold(Contract):
    """A user, as they are told of themselves."""

    id: str
    username: str
    display_name: str
    administrator: bool


class Me(Contract):
    """Who is asking. `mode`: of authentication; in mode `disabled` everybody is the local user. `user` null: nobody is
    signed in.
    """

    mode: Mode
    user: UserTold | None


class TokenTold(Contract):
    """A token without its secret. Absent times are null."""

    id: str
    name: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class TokenMade(TokenTold):
    """A new token with its text, which is told this once."""

    token: str


class TokensTold(Contract):
    """One's own tokens, oldest first."""

    tokens: tuple[TokenTold, ...]


class Done(Contract):
    """It is done."""

    status: str = "ok"


async def sign_in(request: web.Request) -> web.Response:
    """Begins a session and sets its cookie."""
    signing_in = accounts(request)
    login = await small_body(request, Login)
    opened = await signing_in.sign_in(login.username, login.password, signing_in.address(request))
    logger.info("user %s signed in", opened.user_id)
    response = told(Done())
    signing_in.cookie.give(request, response, opened.value)
    return response


async def sign_out(request: web.Request) -> web.Response:
    """Ends the session and takes its cookie, whether or not anybody was signed in. A token stays as it is."""
    signing_in = accounts(request)
    caller = await request.app[AUTHENTICATION].caller(request)
    session_id = None if caller is None else session_of(caller.identity.credential)
    if caller is not None and session_id is not None:
        await signing_in.sessions.end(session_id)
        await signing_in.watch.ended(caller.identity.user, (caller.identity.credential,))
    response = told(Done())
    signing_in.cookie.take(request, response)
    return response


async def me(request: web.Request) -> web.Response:
    """Who is asking, if anybody is signed in."""
    authentication = request.app[AUTHENTICATION]
    caller = await authentication.caller(request)
    return told(Me(mode=authentication.mode, user=None if caller is None else _told(caller)))


async def change_password(request: web.Request) -> web.Response:
    """Replaces one's own password; every other session of one's own ends."""
    signing_in = accounts(request)
    caller = request[CALLER]
    wanted = await small_body(request, NewPassword)
    address = signing_in.address(request)
    ended = await signing_in.change_password(caller, wanted.current_password, wanted.new_password, address)
    if ended:
        await signing_in.watch.ended(caller.identity.user, tuple(map(credential_of, ended)))
    return told(Done())


async def list_tokens(request: web.Request) -> web.Response:
    """One's own tokens, also those that have expired."""
    found = await accounts(request).tokens.of(request[CALLER].identity.user)
    return told(TokensTold(tokens=tuple(map(_token, found))))


async def make_token(request: web.Request) -> web.Response:
    """Makes a token. Its text is in this answer and nowhere else."""
    signing_in = accounts(request)
    wanted = await small_body(request, NewToken)
    token, text = await signing_in.tokens.add(request[CALLER].identity.user, wanted.name, wanted.expires_in_days)
    return told(TokenMade(**_token(token).model_dump(), token=text), status=201)


async def revoke_token(request: web.Request) -> web.Response:
    """Ends a token of one's own, and what it opened."""
    signing_in = accounts(request)
    token_id, user = request.match_info["token_id"], request[CALLER].identity.user
    await signing_in.tokens.revoke(token_id, user)
    await signing_in.watch.ended(user, (token_credential(token_id),))
    return told(Done())


def accounts(request: web.Request) -> SigningIn:
    """The accounts of mode `enabled`. Raises RequestFailed `conflict` in mode `disabled`."""
    found = request.app.get(ACCOUNTS)
    if found is None:
        raise RequestFailed("conflict", ACCOUNTS_OFF)
    return found


def _told(caller: Caller) -> UserTold:
    return UserTold(
        id=caller.identity.user,
        username=caller.username,
        display_name=caller.display_name,
        administrator=caller.administrator,
    )


def _token(token: AccessToken) -> TokenTold:
    return TokenTold(
        id=token.id,
        name=token.name,
        created_at=format_microseconds(token.created_at),
        expires_at=None if token.expires_at is None else format_microseconds(token.expires_at),
        last_used_at=None if token.last_used_at is None else format_microseconds(token.last_used_at),
    )


_SETS = {"Set-Cookie": "The session's cookie."}
_TAKES = {"Set-Cookie": "The session's cookie, expired."}

ROUTES = (
    Route(
        "POST",
        "/api/v1/auth/login",
        sign_in,
        "Sign in with a password",
        "identity",
        (Answer(200, "Signed in.", Done, headers=_SETS), *plain_errors(401, 409, 429)),
        "public",
        body=Login,
    ),
    Route(
        "POST",
        "/api/v1/auth/logout",
        sign_out,
        "Sign out",
        "identity",
        (Answer(200, "Nobody is signed in by this cookie any more.", Done, headers=_TAKES), *plain_errors(409)),
        "public",
    ),
    Route("GET", "/api/v1/auth/me", me, "Who is asking", "identity", (Answer(200, "They are.", Me),), "public"),
    Route(
        "PUT",
        "/api/v1/auth/password",
        change_password,
        "Change one's own password",
        "identity",
        (Answer(200, "Changed; one's other sessions have ended.", Done), *plain_errors(409, 429)),
        body=NewPassword,
    ),
    Route(
        "GET",
        "/api/v1/auth/tokens",
        list_tokens,
        "One's own personal access tokens",
        "identity",
        (Answer(200, "Without their secrets.", TokensTold), *plain_errors(409)),
    ),
    Route(
        "POST",
        "/api/v1/auth/tokens",
        make_token,
        "Make a personal access token",
        "identity",
        (Answer(201, "With its text, told this once.", TokenMade), *plain_errors(409)),
        body=NewToken,
    ),
    Route(
        "DELETE",
        "/api/v1/auth/tokens/{token_id}",
        revoke_token,
        "Revoke a personal access token",
        "identity",
        (Answer(200, "Revoked; connections that it opened are closed.", Done), *plain_errors(404, 409)),
    ),
)
