"""The caller's own prompts, kept by name."""

from typing import Annotated

from aiohttp import web
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from services.gateway.http.bodies import object_of, read_as, told
from services.gateway.http.keys import DATABASE, IDENTITY
from services.gateway.http.routes import Answer, Route, typed_errors
from services.gateway.ids import named
from services.gateway.prompts import Prompt, Prompts
from shared.contracts.base import NO_CONTROLS, NO_NUL, Contract, Timestamp
from shared.times import format_microseconds

MAX_CHARACTERS = 100_000
"""Longest text of a prompt: a long document, and two hundred of them still one answer."""

_MISSING = "prompt not found"


def _is_trimmed(name: str) -> str:
    if name != name.strip():
        raise ValueError("a name must not begin or end with white space")
    return name


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=NO_CONTROLS),
    AfterValidator(_is_trimmed),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARACTERS, pattern=NO_NUL)]


class NewPrompt(Contract, extra="forbid"):
    """A prompt to be kept."""

    name: Name
    content: Text


class PromptChange(Contract, extra="forbid"):
    """What to replace of a prompt."""

    name: Name | None = None
    content: Text | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PromptChange":
        if self.name is None and self.content is None:
            raise ValueError("name or content is required")
        return self


class PromptTold(Contract):
    """A prompt as its user sees it."""

    id: str
    name: str
    content: str
    created_at: Timestamp
    updated_at: Timestamp


class PromptsTold(Contract):
    """A user's prompts by name."""

    prompts: tuple[PromptTold, ...]
    total: Annotated[int, Field(ge=0)]


class PromptRemoved(Contract):
    """The prompt is gone."""

    id: str


async def list_prompts(request: web.Request) -> web.Response:
    """The caller's prompts."""
    prompts = await _prompts(request).all(request[IDENTITY].user)
    return told(PromptsTold(prompts=tuple(map(_shown, prompts)), total=len(prompts)))


async def add_prompt(request: web.Request) -> web.Response:
    """Keeps a prompt under a name that no other prompt of the caller has."""
    given = read_as(NewPrompt, await object_of(request))
    return told(_shown(await _prompts(request).add(request[IDENTITY].user, given.name, given.content)), status=201)


async def change_prompt(request: web.Request) -> web.Response:
    """Replaces a prompt's name, text, or both."""
    given = read_as(PromptChange, await object_of(request))
    prompt_id = named(request.match_info["prompt_id"], _MISSING)
    return told(_shown(await _prompts(request).change(request[IDENTITY].user, prompt_id, given.name, given.content)))


async def remove_prompt(request: web.Request) -> web.Response:
    """Forgets a prompt."""
    prompt_id = named(request.match_info["prompt_id"], _MISSING)
    await _prompts(request).remove(request[IDENTITY].user, prompt_id)
    return told(PromptRemoved(id=prompt_id))


def _prompts(request: web.Request) -> Prompts:
    return Prompts(request.app[DATABASE])


def _shown(prompt: Prompt) -> PromptTold:
    return PromptTold(
        id=prompt.id,
        name=prompt.name,
        content=prompt.content,
        created_at=format_microseconds(prompt.created_at),
        updated_at=format_microseconds(prompt.updated_at),
    )


_PATH = "/api/v1/prompts"
_TAG = "prompts"

ROUTES = (
    Route("GET", _PATH, list_prompts, "The caller's prompts", _TAG, (Answer(200, "Prompts by name.", PromptsTold),)),
    Route(
        "POST",
        _PATH,
        add_prompt,
        "Keep a prompt",
        _TAG,
        (Answer(201, "Kept.", PromptTold), *typed_errors(409)),
        form="typed",
        body=NewPrompt,
    ),
    Route(
        "PATCH",
        _PATH + "/{prompt_id}",
        change_prompt,
        "Change a prompt",
        _TAG,
        (Answer(200, "Changed.", PromptTold), *typed_errors(404, 409)),
        form="typed",
        body=PromptChange,
    ),
    Route(
        "DELETE",
        _PATH + "/{prompt_id}",
        remove_prompt,
        "Delete a prompt",
        _TAG,
        (Answer(200, "Deleted.", PromptRemoved), *typed_errors(404)),
        form="typed",
    ),
)
