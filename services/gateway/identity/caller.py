"""Who sent a request, as the gateway's own parts need to know it."""

from dataclasses import dataclass

from shared.contracts.identity import LOCAL_USER, Identity


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified person or program. `identity` travels with reads and commands; the rest stays at the gateway.

    `administrator`: may manage accounts and plugins. It says nothing about which conversations the caller may read.
    """

    identity: Identity
    username: str
    display_name: str = ""
    administrator: bool = False


LOCAL_CALLER = Caller(LOCAL_USER, username="local", display_name="Local user", administrator=True)
"""The one caller of mode `disabled`."""
