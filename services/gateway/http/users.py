"""Accounts, for administrators."""

import logging

from aiohttp import web
from pydantic import Field

from services.gateway.http.bodies import small_body, told
from services.gateway.http.identity import accounts
from services.gateway.http.routes import Answer, Route, plain_errors
from services.gateway.identity.accounts import MOST_NAME_CHARACTERS, Account, Changes, user_named
from services.gateway.identity.passwords import LEAST_CHARACTERS, MOST_BYTES
from services.gateway.identity.sessions import credential_of
from shared.contracts.base import Contract
from shared.times import format_microseconds

logger = logging.getLogger(__name__)


class NewUser(Contract):
    """An account to add."""

    username: str = Field(min_length=1, max_length=MOST_NAME_CHARACTERS)
    password: str = Field(min_length=LEAST_CHARACTERS, max_length=MOST_BYTES)
    display_name: str = Field(default="", max_length=MOST_NAME_CHARACTERS)
    administrator: bool = False


class UserChanges(Contract):
    """What to change of an account. What is absent or null stays."""

    display_name: str | None = Field(default=None, max_length=MOST_NAME_CHARACTERS)
    administrator: bool | None = None
    disabled: bool | None = None
    password: str | None = Field(default=None, min_length=LEAST_CHARACTERS, max_length=MOST_BYTES)


class AccountTold(Contract):
    """An account."""

    id: str
    username: str
    display_name: str
    administrator: bool
    disabled: bool
    created_at: str


class AccountsTold(Contract):
    """Every account, by username."""

    users: tuple[AccountTold, ...]


async def list_users(request: web.Request) -> web.Response:
    """Every account."""
    found = await accounts(request).accounts.all()
    return told(AccountsTold(users=tuple(map(_shown, found))))


async def add_user(request: web.Request) -> web.Response:
    """Adds an account."""
    signing_in = accounts(request)
    wanted = await small_body(request, NewUser)
    hashed = await signing_in.passwords.hashed(wanted.password)
    account = await signing_in.accounts.add(
        wanted.username, hashed, display_name=wanted.display_name, administrator=wanted.administrator
    )
    logger.info("user %s was added", account.id)
    return told(_shown(account), status=201)


async def change_user(request: web.Request) -> web.Response:
    """Changes an account. Its sessions end when it is disabled or gets another password; disabled, its tokens do
    nothing.
    """
    signing_in = accounts(request)
    wanted = await small_body(request, UserChanges)
    hashed = None if wanted.password is None else await signing_in.passwords.hashed(wanted.password)
    account, ended = await signing_in.accounts.change(
        user_named(request.match_info["user_id"]),
        Changes(
            display_name=wanted.display_name,
            administrator=wanted.administrator,
            disabled=wanted.disabled,
            password_hash=hashed,
        ),
    )
    if wanted.disabled:
        await signing_in.watch.ended(account.id)
    else:
        await signing_in.watch.changed(account.id)
        if ended:
            await signing_in.watch.ended(account.id, tuple(map(credential_of, ended)))
    logger.info("user %s was changed", account.id)
    return told(_shown(account))


def _shown(account: Account) -> AccountTold:
    return AccountTold(
        id=account.id,
        username=account.username,
        display_name=account.display_name,
        administrator=account.administrator,
        disabled=account.disabled,
        created_at=format_microseconds(account.created_at),
    )


ROUTES = (
    Route(
        "GET",
        "/api/v1/users",
        list_users,
        "Every account",
        "users",
        (Answer(200, "By username.", AccountsTold), *plain_errors(409)),
        "administrator",
    ),
    Route(
        "POST",
        "/api/v1/users",
        add_user,
        "Add an account",
        "users",
        (Answer(201, "Added.", AccountTold), *plain_errors(409)),
        "administrator",
        body=NewUser,
    ),
    Route(
        "PATCH",
        "/api/v1/users/{user_id}",
        change_user,
        "Change an account",
        "users",
        (Answer(200, "Changed.", AccountTold), *plain_errors(404, 409)),
        "administrator",
        body=UserChanges,
    ),
)
