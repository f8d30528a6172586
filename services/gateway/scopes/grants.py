"""What plugins may follow: decided when a scope opens, and again whenever an installation changes (G10).

Decided in memory: neither a subscription nor a frame costs a query here.
"""

from collections.abc import Set as AbstractSet

from services.gateway.identity.caller import Caller
from services.gateway.plugins.bindings import BindingInvalid, Bindings, GenerationSuperseded
from services.gateway.plugins.registry import ActivePlugin, Registry
from services.gateway.scopes.hub import Hub
from services.gateway.scopes.scope import Grant
from shared.contracts.wire import SubscribeErrorCode

RESOURCE = "messages"
"""What a plugin's manifest must ask to read."""


class Refused(Exception):
    """A subscription that is not opened. `code` and text are its reply's."""

    def __init__(self, code: SubscribeErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Grants:
    """Admits plugins' scopes, and ends those whose plugin was disabled, removed, upgraded, or may no longer read."""

    def __init__(self, registry: Registry, bindings: Bindings, hub: Hub) -> None:
        self._registry = registry
        self._bindings = bindings
        self._hub = hub
        registry.listen(self._plugins_changed)

    async def admit(self, caller: Caller, grant: Grant, binding_token: str) -> None:
        """Returns if the caller's browser may follow conversations for this installation of a plugin.

        Raises Refused: `not_found` alike for a plugin that is unknown, not active or may not read. Raises RequestFailed
        while the keys of bindings cannot be read.
        """
        self._plugin(grant)
        await self._bindings.learn(binding_token)
        plugin = self._plugin(grant)
        try:
            self._bindings.verify(binding_token, caller, plugin)
        except BindingInvalid:
            raise Refused("invalid_binding", "invalid conversation binding") from None
        except GenerationSuperseded:
            raise _superseded() from None
        self.require(grant)

    def require(self, grant: Grant) -> None:
        """Returns if the installation that was admitted is still the one in use, and may read. Raises Refused."""
        if self._plugin(grant).generation != grant.generation:
            raise _superseded()

    def _plugin(self, grant: Grant) -> ActivePlugin:
        plugin = self._registry.active(grant.plugin_id)
        if plugin is None or not plugin.may_read(RESOURCE):
            raise Refused("not_found", "plugin not found")
        return plugin

    def _plugins_changed(self, plugins: AbstractSet[str]) -> None:
        self._hub.revoke(
            scope
            for scope in self._hub.scopes()
            if scope.grant is not None and scope.grant.plugin_id in plugins and not self._holds(scope.grant)
        )

    def _holds(self, grant: Grant) -> bool:
        try:
            self.require(grant)
        except Refused:
            return False
        return True


def _superseded() -> Refused:
    return Refused("generation_superseded", "the plugin was installed again; ask for a new binding")
