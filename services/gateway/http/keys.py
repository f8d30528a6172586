"""What handlers find on the application and the request."""

from aiohttp import web

from services.gateway.control import Control
from services.gateway.scopes.hub import Hub
from services.gateway.source.requests import Source
from shared.contracts.identity import Identity

SOURCE = web.AppKey("source", Source)
HUB = web.AppKey("hub", Hub)
CONTROL = web.AppKey("control", Control)
IDENTITY = web.RequestKey("identity", Identity)
