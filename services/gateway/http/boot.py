"""What a browser host needs to know before anything else: who asks, what is served, which plugins to load."""

from urllib.parse import quote

from aiohttp import web
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from services.gateway.http.keys import CALLER, REGISTRY, SETTINGS
from services.gateway.http.prompts import MAX_CHARACTERS
from services.gateway.http.routes import Answer, Parameter, Route, sparse
from services.gateway.locales import SHIPPED, preferred
from services.gateway.plugins.registry import ActivePlugin
from services.gateway.prompts import MOST_PROMPTS
from services.gateway.websocket.connection import MAX_MESSAGE_BYTES
from services.gateway.websocket.limits import MAX_SCOPES
from shared.contracts.base import Contract
from shared.contracts.commands import MAX_CONTENT_CHARACTERS
from shared.contracts.reads import MAX_PAGE_ROWS
from shared.contracts.wire import PROTOCOL_VERSION


class BootUser(Contract):
    """The caller."""

    id: str
    username: str
    display_name: str
    administrator: bool


class BootFeatures(Contract):
    """What is on. `authentication`: there are accounts, and one can sign out."""

    authentication: bool
    test_controls: bool


class BootVersions(Contract):
    """`kandev`: the version that plugins find here. `protocol`: of conversation scopes."""

    kandev: str
    protocol: int


class BootLimits(Contract):
    """What one request or connection may have at most."""

    page_rows: int
    message_characters: int
    socket_message_bytes: int
    scopes: int
    prompts: int
    prompt_characters: int


class LoadablePlugin(Contract):
    """A plugin as the loader takes it, in its own spelling."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    id: str
    name: str
    bundle_url: str
    style_urls: tuple[str, ...] | None = None
    repository_provider_ids: tuple[str, ...] | None = None


class Boot(Contract):
    """The boot payload. `plugins`: those with a bundle, by id."""

    user: BootUser
    features: BootFeatures
    plugins: tuple[LoadablePlugin, ...]
    locale: str
    locales: tuple[str, ...]
    versions: BootVersions
    limits: BootLimits


_LIMITS = BootLimits(
    page_rows=MAX_PAGE_ROWS,
    message_characters=MAX_CONTENT_CHARACTERS,
    socket_message_bytes=MAX_MESSAGE_BYTES,
    scopes=MAX_SCOPES,
    prompts=MOST_PROMPTS,
    prompt_characters=MAX_CHARACTERS,
)


async def boot(request: web.Request) -> web.Response:
    """The boot payload of the caller."""
    caller, settings = request[CALLER], request.app[SETTINGS]
    told = Boot(
        user=BootUser(
            id=caller.identity.user,
            username=caller.username,
            display_name=caller.display_name,
            administrator=caller.administrator,
        ),
        features=BootFeatures(
            authentication=settings.auth != "disabled", test_controls=settings.test_controls != "off"
        ),
        plugins=tuple(loadable(plugin) for plugin in request.app[REGISTRY].all_active() if plugin.manifest.ui.bundle),
        locale=preferred(request.headers.get("Accept-Language", "")),
        locales=SHIPPED,
        versions=BootVersions(kandev=settings.compat_version, protocol=PROTOCOL_VERSION),
        limits=_LIMITS,
    )
    return web.json_response(told.model_dump(mode="json", by_alias=True, exclude_none=True))


def loadable(plugin: ActivePlugin) -> LoadablePlugin:
    """A plugin for the loader. Another package has other addresses, so that no cache mixes two of them."""
    manifest, base, version = plugin.manifest, f"/api/plugins/{plugin.id}", plugin.asset_version
    return LoadablePlugin(
        id=plugin.id,
        name=manifest.display_name or plugin.id,
        bundle_url=f"{base}/bundle?v={version}",
        style_urls=tuple(f"{base}/ui{quote(style)}?v={version}" for style in manifest.ui.styles) or None,
        repository_provider_ids=manifest.repository_providers or None,
    )


ROUTES = (
    Route(
        "GET",
        "/api/v1/boot",
        boot,
        "What a browser host begins with",
        "host",
        (Answer(200, "The caller, what is served, and the plugins to load.", sparse(Boot)),),
        parameters=(Parameter("Accept-Language", "Which of the shipped languages `locale` names.", "header"),),
    ),
)
