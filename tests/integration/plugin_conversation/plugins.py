"""What a plugin's browser part does, and what it is answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from yarl import URL

from services.gateway.http.plugin_conversation import BINDING_HEADER
from tests.support.plugins import install
from tests.support.stack import Stack
from tests.support.waiting import eventually

Json = dict[str, Any]  # any: bodies are looked at field by field


@dataclass(frozen=True)
class Answer:
    """What a route answered."""

    status: int
    body: Json
    headers: dict[str, str]

    @property
    def error(self) -> tuple[int, str, str, bool]:
        """Status, code, sentence and whether to ask again."""
        error = self.body["error"]
        assert set(self.body) == {"error"}
        assert set(error) == {"code", "message", "retryable"}
        return self.status, error["code"], error["message"], error["retryable"]

    def ids(self, name: str = "messages") -> list[str]:
        """Ids of the page's rows."""
        return [row["id"] for row in self.body[name]]


@dataclass(frozen=True)
class Plugin:
    """A plugin's browser part at one gateway. `binding`: what it shows; None for nothing. `headers`: whose it is."""

    stack: Stack
    id: str
    binding: str | None = None
    gateway: str = "gateway"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def get(self, path: str, query: object = None, more_headers: Mapping[str, str] | None = None) -> Answer:
        """One request below `/api/plugins/{id}/conversation`. No answer may be kept, whatever it says."""
        shown = {} if self.binding is None else {BINDING_HEADER: self.binding}
        address = f"{self.stack.url_of(self.gateway)}/api/plugins/{quote(self.id, safe='')}/conversation{path}"
        more: Any = {"params": query, "headers": {**self.headers, **shown, **(more_headers or {})}}
        async with self.stack.http.get(URL(address, encoded=True), **more) as answer:
            assert answer.headers.getall("Cache-Control") == ["no-store"]
            assert answer.content_type == "application/json"
            return Answer(answer.status, await answer.json(), dict(answer.headers))

    async def read(self, session_id: str, what: str = "messages", **query: object) -> Answer:
        """A read of a session; values that are lists are given several times."""
        pairs = [
            (name, str(each))
            for name, value in query.items()
            for each in (value if isinstance(value, list) else [value])
        ]
        return await self.get(f"/v2/task-sessions/{quote(session_id, safe='')}/{what}", pairs)

    async def bound(self) -> "Plugin":
        """With a fresh binding, once the gateway knows the plugin."""
        answer = await eventually(lambda: self.get("/binding"), lambda found: found.status == 200)
        return replace(self, binding=answer.body["bindingToken"])


async def installed(stack: Stack, plugin_id: str) -> Plugin:
    """A plugin that may read messages, with a binding."""
    await install(stack, plugin_id, gateways=())
    return await Plugin(stack, plugin_id).bound()


@dataclass(frozen=True)
class Installed:
    """What tokens know of a plugin."""

    id: str
    generation: int
