"""Members of workspaces: who reads and writes there, besides the owner."""

from aiohttp import web

from services.gateway.http.bodies import told
from services.gateway.http.keys import CALLER, CONTROL, DATABASE, IDENTITY, SOURCE
from services.gateway.http.routes import Answer, Parameter, Route, plain_errors, typed_errors
from services.gateway.identity.accounts import Accounts, no_such_user, user_named
from services.gateway.ids import named
from shared.contracts.base import Contract
from shared.contracts.commands import RemoveMember, SetMember
from shared.contracts.control import MembershipChanged
from shared.contracts.errors import RequestFailed
from shared.contracts.reads import ListAnswer, MemberList

_NO_WORKSPACE = "there is no such workspace, or it is not yours to see"


class MemberTold(Contract):
    """A member. The names are empty where no account has this id."""

    user_id: str
    username: str
    display_name: str
    role: str


class MembersTold(Contract):
    """A workspace's owner (empty: everyone sees it) and its members, by id."""

    workspace_id: str
    owner_id: str
    members: tuple[MemberTold, ...]


class Membership(Contract):
    """A user of a workspace whose membership was set or removed."""

    workspace_id: str
    user_id: str


async def list_members(request: web.Request) -> web.Response:
    """Who is a member, told to everybody who may see the workspace."""
    answer = await _visible(request, _workspace(request))
    names = await Accounts(request.app[DATABASE]).names(tuple(row.user_id for row in answer.members))
    return told(
        MembersTold(
            workspace_id=answer.workspaces[0].id,
            owner_id=answer.workspaces[0].owner_id,
            members=tuple(
                MemberTold(user_id=row.user_id, role=row.role, username=username, display_name=display_name)
                for row in answer.members
                for username, display_name in (names.get(row.user_id, ("", "")),)
            ),
        )
    )


async def set_member(request: web.Request) -> web.Response:
    """Makes a user with an account a member. People know each other by their usernames: one may stand for the id."""
    workspace_id = _workspace(request)
    # Decided first: whose workspace it is not is told nothing else.
    await _visible(request, workspace_id)
    user_id = await Accounts(request.app[DATABASE]).found(user_named(request.match_info["user"]))
    if user_id is None:
        raise no_such_user()
    administrator = request[CALLER].administrator
    return await _carried_out(
        request, SetMember(workspace_id=workspace_id, user_id=user_id, administrator=administrator)
    )


async def remove_member(request: web.Request) -> web.Response:
    """Ends a membership; the user's open scopes there end at once. It may be of an account that is gone."""
    workspace_id, user = _workspace(request), user_named(request.match_info["user"])
    user_id = await Accounts(request.app[DATABASE]).found(user) or user
    administrator = request[CALLER].administrator
    return await _carried_out(
        request, RemoveMember(workspace_id=workspace_id, user_id=user_id, administrator=administrator)
    )


async def _visible(request: web.Request, workspace_id: str) -> ListAnswer:
    """The workspace with its members, if the caller may see it. Raises RequestFailed `not_found`."""
    answer = await request.app[SOURCE].list(MemberList(identity=request[IDENTITY], workspace_id=workspace_id))
    if not answer.workspaces:
        raise RequestFailed("not_found", _NO_WORKSPACE)
    return answer


async def _carried_out(request: web.Request, command: SetMember | RemoveMember) -> web.Response:
    await request.app[SOURCE].command(request[IDENTITY], command)
    changed = MembershipChanged(workspace_id=command.workspace_id, users=(command.user_id,))
    await request.app[CONTROL].announce(changed)
    return told(Membership(workspace_id=command.workspace_id, user_id=command.user_id))


def _workspace(request: web.Request) -> str:
    return named(request.match_info["workspace_id"], _NO_WORKSPACE)


_MEMBER = "/api/v1/workspaces/{workspace_id}/members/{user}"
_USER = Parameter("user", "The user's id, or else their username.", place="path", required=True)

ROUTES = (
    Route(
        "GET",
        "/api/v1/workspaces/{workspace_id}/members",
        list_members,
        "The members of a workspace",
        "conversations",
        (Answer(200, "At most 500, by id.", MembersTold), *plain_errors(404)),
    ),
    Route(
        "PUT",
        _MEMBER,
        set_member,
        "Make a user a member of a workspace",
        "writers",
        (Answer(200, "They are one.", Membership), *typed_errors(404, 429)),
        form="typed",
        parameters=(_USER,),
    ),
    Route(
        "DELETE",
        _MEMBER,
        remove_member,
        "End a user's membership of a workspace",
        "writers",
        (Answer(200, "They are none.", Membership), *typed_errors(404, 429)),
        form="typed",
        parameters=(_USER,),
    ),
)
