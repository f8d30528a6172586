"""Passwords of addresses (pure): put into them where they stand apart, and told from placeholders."""

from urllib.parse import quote, unquote, urlsplit, urlunsplit

from pydantic import SecretStr

PLACEHOLDERS = frozenset({"changeme", "changeit", "placeholder", "password", "secret", "example"})
"""What examples put in the place of a secret, without its dashes, dots and underscores."""


def with_password(address: SecretStr, password: SecretStr) -> SecretStr:
    """The address with this password, unless it has one."""
    parts = urlsplit(address.get_secret_value())
    user, separator, place = parts.netloc.rpartition("@")
    if ":" in user:
        return address
    user = f"{user if separator else ''}:{quote(password.get_secret_value(), safe='')}"
    return SecretStr(urlunsplit(parts._replace(netloc=f"{user}@{place}")))


def is_placeholder(address: SecretStr) -> bool:
    """Whether the address has a password that anybody could guess from an example."""
    user = urlsplit(address.get_secret_value()).netloc.rpartition("@")[0]
    password = unquote(user.partition(":")[2]).lower()
    return "".join(character for character in password if character not in "-_. ") in PLACEHOLDERS
