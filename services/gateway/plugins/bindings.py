"""Bindings: what a plugin's browser part shows to read conversations as the user who has it open."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from services.gateway.identity.caller import Caller
from services.gateway.plugins.keyring import Keyring, now_microseconds
from shared.tokens import LIFETIME_SECONDS, MICROSECONDS, BindingClaims, TokenInvalid, sign, verify


class BindingInvalid(Exception):
    """Not a binding of this user and plugin, or no longer."""


class GenerationSuperseded(Exception):
    """A binding that was good until the plugin was installed again."""


class Installation(Protocol):
    """What a binding knows of a plugin."""

    @property
    def id(self) -> str:
        """The plugin's id."""

    @property
    def generation(self) -> int:
        """When it was installed, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Binding:
    """An issued binding. `expires_at`: microseconds since 1970."""

    token: str
    generation: int
    expires_at: int


class Bindings:
    """Issues and checks bindings. `clock`: the time in microseconds since 1970."""

    def __init__(self, keyring: Keyring, clock: Callable[[], int] = now_microseconds) -> None:
        self._keyring = keyring
        self._clock = clock

    def issue(self, caller: Caller, plugin: Installation) -> Binding:
        """A binding for ten minutes. Raises RequestFailed while no key is known."""
        # Whole seconds: the text that tells the time has then one form for all clients.
        expires_at = (self._clock() // MICROSECONDS + LIFETIME_SECONDS) * MICROSECONDS
        claims = BindingClaims(
            plugin_id=plugin.id, user_id=caller.identity.user, generation=plugin.generation, expires_at=expires_at
        )
        return Binding(sign(claims, self._keyring.signing), plugin.generation, expires_at)

    async def learn(self, token: str) -> None:
        """To be awaited before `verify`: finds out about a key that another gateway may have signed with. Raises
        RequestFailed when that cannot be told.
        """
        await self._keyring.learn(token)

    def verify(self, token: str, caller: Caller, plugin: Installation) -> None:
        """Returns if the token binds this user and this installation of this plugin.

        Raises GenerationSuperseded if all of it is right but the installation, BindingInvalid for everything else.
        """
        try:
            claims = verify(token, self._keyring.verifying, self._clock(), BindingClaims)
        except TokenInvalid:
            raise BindingInvalid from None
        if (claims.plugin_id, claims.user_id) != (plugin.id, caller.identity.user):
            raise BindingInvalid
        if claims.generation != plugin.generation:
            raise GenerationSuperseded
