"""Who asks. Travels with every read and command; access is decided where the rows are read."""

from shared.contracts.base import Contract


class Identity(Contract):
    """A person or program that the gateway has identified.

    `user`: id of the account, or the local user's.
    `unscoped`: may see every workspace (the local user of mode `disabled`, or an administrator's tool).
    `credential`: names the session or token that proved it, so that revoking it can be told apart; never the secret
    itself.
    """

    user: str
    unscoped: bool = False
    credential: str = ""


LOCAL_USER = Identity(user="default-user", unscoped=True, credential="local")
"""The one user of authentication mode `disabled`."""
