"""What handlers find on the application and the request."""

from collections.abc import Mapping

import asyncpg
from aiohttp import web

from services.gateway.control import Control
from services.gateway.http.errors import Form
from services.gateway.identity.authentication import Authentication
from services.gateway.identity.caller import Caller
from services.gateway.identity.signing_in import SigningIn
from services.gateway.plugins.bindings import Bindings
from services.gateway.plugins.cursors import Cursors
from services.gateway.plugins.fetching import Sources
from services.gateway.plugins.lifecycle import Plugins
from services.gateway.plugins.registry import Registry
from services.gateway.plugins.user_state import UserState
from services.gateway.rpc.tokens import PluginTokens
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from services.gateway.websocket.connection import Action
from services.gateway.websocket.limits import Limits
from services.gateway.websocket.registry import Connections
from shared.contracts.identity import Identity
from shared.process import Readiness
from shared.settings import Settings

SOURCE = web.AppKey("source", Source)
HUB = web.AppKey("hub", Hub)
CONTROL = web.AppKey("control", Control)
CONNECTIONS = web.AppKey("connections", Connections)
LIMITS = web.AppKey("limits", Limits)
ACTIONS: web.AppKey[Mapping[str, Action]] = web.AppKey("actions")
"""What clients may ask on the WebSocket, by name."""
DATABASE = web.AppKey("database", asyncpg.Pool)
"""The gateway's own tables (schema `gateway`); it queries nothing else."""
FORMS: web.AppKey[Mapping[web.AbstractRoute, Form]] = web.AppKey("forms")
"""How each route tells errors."""
DOCUMENT = web.AppKey("document", bytes)
"""The OpenAPI document."""
REGISTRY = web.AppKey("registry", Registry)
BINDINGS = web.AppKey("bindings", Bindings)
CURSORS = web.AppKey("cursors", Cursors)
PLUGINS = web.AppKey("plugins", Plugins)
SOURCES = web.AppKey("sources", Sources)
PLUGIN_TOKENS = web.AppKey("plugin_tokens", PluginTokens)
USER_STATE = web.AppKey("user_state", UserState)
SETTINGS = web.AppKey("settings", Settings)
READINESS: web.AppKey[Readiness] = web.AppKey("readiness")
AUTHENTICATION: web.AppKey[Authentication] = web.AppKey("authentication")
ACCOUNTS = web.AppKey("accounts", SigningIn)
"""Only with authentication enabled."""
CALLER = web.RequestKey("caller", Caller)
IDENTITY = web.RequestKey("identity", Identity)
"""The caller's identity, as reads and commands carry it."""
