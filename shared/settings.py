"""Settings of every process, read from the environment: one prefix, `KANDEV_`, and the usual aliases for the two
addresses.

`kandev-conversation settings` lists them with their meaning and value (secrets masked).
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import SettingsConfigDict

from shared.origins import is_loopback
from shared.passwords import is_placeholder, with_password
from shared.secret_files import PREFIX, FromEnvironment

Port = Annotated[int, Field(ge=0, le=65535)]


def _database_address(secret: SecretStr) -> SecretStr:
    return _address(secret, ("postgresql", "postgres"), "postgresql://user:password@host:port/database")


def _redis_address(secret: SecretStr) -> SecretStr:
    return _address(secret, ("redis", "rediss", "unix"), "redis://:password@host:port/0, or rediss:// or unix://")


def _address(secret: SecretStr, schemes: tuple[str, ...], expected: str) -> SecretStr:
    """The address, if it has the form of one. Its password may hold anything; an error never shows the value."""
    text = secret.get_secret_value()
    scheme, separator, rest = text.partition("://")
    if scheme not in schemes or not separator or not rest.isprintable() or not _names_a_place(scheme, text):
        raise PydanticCustomError("address", "expected an address like {expected}", {"expected": expected})
    return secret


def _names_a_place(scheme: str, text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if scheme == "unix":
        return bool(parts.path.strip("/"))
    # PostgreSQL's addresses may name several hosts, or, for its socket files, none.
    return all(_is_host(host) for host in parts.netloc.rpartition("@")[2].split(","))


def _is_host(text: str) -> bool:
    bracketed, _, port = text.rpartition("]")
    name, _, port = (bracketed, "", port.removeprefix(":")) if bracketed else text.partition(":")
    return " " not in name and (not port or (port.isascii() and port.isdigit() and 0 < int(port) <= 65535))


DatabaseAddress = Annotated[SecretStr, AfterValidator(_database_address)]
RedisAddress = Annotated[SecretStr, AfterValidator(_redis_address)]


class Settings(FromEnvironment):
    """Every setting. Addresses hold passwords and are therefore secrets: read them with `.get_secret_value()`.

    A variable that is set to nothing counts as unset. A secret may stand in a file: `shared.secret_files`.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        hide_input_in_errors=True,
        populate_by_name=True,
    )

    database_url: DatabaseAddress = Field(
        default=SecretStr("postgresql://localhost:5432/kandev"),
        validation_alias=AliasChoices("KANDEV_DATABASE_URL", "DATABASE_URL"),
        description="PostgreSQL primary that holds the source. The revision service needs the REPLICATION right there.",
    )
    replica_url: DatabaseAddress | None = Field(
        default=None,
        description="A read replica from which readers answer what need not come from the primary.",
    )
    redis_url: RedisAddress = Field(
        default=SecretStr("redis://localhost:6379/0"),
        validation_alias=AliasChoices("KANDEV_REDIS_URL", "REDIS_URL"),
        description="Redis (or a compatible server) that carries the streams. As confidential as the database.",
    )
    database_password: SecretStr | None = Field(
        default=None,
        description="Password for the database's addresses that name none: any characters, none of them escaped.",
    )
    redis_password: SecretStr | None = Field(
        default=None, description="Password for Redis, where its address has none."
    )
    auth: Literal["disabled", "enabled"] = Field(
        default="disabled",
        description="disabled: everybody is the one local user. enabled: accounts, sign-in and access tokens.",
    )
    allowed_hosts: str = Field(
        default="",
        description="Comma-separated host names, besides loopback, that requests may name. Empty with authentication "
        "enabled: any.",
    )
    behind_proxy: bool = Field(
        default=False,
        description="Take a client's address and scheme from X-Forwarded-For and X-Forwarded-Proto: only where a proxy "
        "sets both on every request.",
    )
    host: str = Field(default="127.0.0.1", description="Address on which the gateway listens.")
    port: Port = Field(
        default=8080,
        validation_alias=AliasChoices("KANDEV_PORT", "PORT"),
        description="Port of the gateway's HTTP routes and WebSocket.",
    )
    rpc_port: Port = Field(
        default=8081, description="Port of Host RPC, which plugins' own processes call over gRPC. 0: it is not served."
    )
    rpc_tls_cert: Path | None = Field(
        default=None, description="Certificate chain (PEM) with which Host RPC is served on TLS. Read at start."
    )
    rpc_tls_key: Path | None = Field(default=None, description="Private key (PEM) of that certificate.")
    metrics_port: Port = Field(
        default=9100, description="Port of /health, /ready and /metrics of this process. 0: a free one."
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address of the metrics port.")
    database_pool: Annotated[int, Field(ge=1, le=200)] = Field(
        default=8, description="Most database connections of this process."
    )
    request_timeout: Annotated[float, Field(gt=0, le=60)] = Field(
        default=5.0,
        description="Seconds until a read or command that nobody answered fails with a retryable error.",
    )
    tracker_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=10.0,
        description="A gateway says that it is degraded when no tracker has been seen for this many seconds.",
    )
    drain_pause: Annotated[float, Field(ge=0, le=300)] = Field(
        default=0.0,
        description="Seconds for which a gateway that was told to stop still takes what comes, while /ready refuses: "
        "as many as its load balancer needs to notice.",
    )
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=10.0,
        description="Seconds over which a gateway that stops closes its WebSockets, spread evenly, and within which "
        "every service finishes what it has in hand.",
    )
    connections: Annotated[int, Field(ge=1)] = Field(
        default=20_000, description="Most WebSocket connections of one gateway. Each may need an open file (ulimit -n)."
    )
    connections_per_address: Annotated[int, Field(ge=1)] = Field(
        default=4_000, description="Most WebSocket connections of one gateway that come from the same address."
    )
    connections_per_user: Annotated[int, Field(ge=1)] = Field(
        default=256,
        description="Most WebSocket connections of one gateway that are the same user's; without accounts, any.",
    )
    scopes_per_user: Annotated[int, Field(ge=1)] = Field(
        default=4_096,
        description="Most subscriptions of one gateway that are the same user's; without accounts, that come from the "
        "same address.",
    )
    vacant_connections: Annotated[int, Field(ge=1)] = Field(
        default=4_096,
        description="Most connections of one gateway's public port with no request in hand, yet or any more. Beyond "
        "them the one that has waited longest is closed.",
    )
    head_seconds: Annotated[float, Field(gt=0)] = Field(
        default=75.0,
        description="Seconds in which a connection has to bring the whole head of a request, from its opening or its "
        "last answer. More than a proxy keeps connections to the gateway unused.",
    )
    body_seconds: Annotated[float, Field(gt=0)] = Field(
        default=300.0, description="Seconds in which the whole body of a request has to come, from the end of its head."
    )
    idle_seconds: Annotated[float, Field(gt=0)] = Field(
        default=1_800.0,
        description="Seconds after which a WebSocket connection is closed on which nothing is followed or asked for.",
    )
    resume_megabytes: Annotated[int, Field(ge=0, le=65536)] = Field(
        default=64,
        description="Most memory (MiB) for the latest receipts, which spare clients that come back from reading again. "
        "0: none.",
    )
    compat_version: str = Field(
        default="0.95.0",
        description="The kandev version that this host answers to a plugin's min_kandev_version.",
    )
    plugin_sources: str = Field(
        default="",
        description="Comma-separated URL prefixes from which administrators may have plugins fetched. Empty: none; "
        "packages are uploaded. Private addresses only where a prefix spells them out.",
    )
    cache_dir: Path | None = Field(
        default=None,
        description="Where plugin packages are unpacked: a folder that nobody else can write. Gateways of one machine "
        "may share it. Unset: a temporary one of this process.",
    )
    test_controls: Literal["off", "on", "even-with-authentication"] = Field(
        default="off",
        description="Routes by which tests make changes and wait until they are told. on: not with authentication.",
    )
    data_dir: Path = Field(default=Path(".data"), description="Where the embedded stack keeps its data.")
    log_format: Literal["text", "json"] = Field(default="text", description="Log lines for people or for machines.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged."
    )

    @field_validator("host")
    @classmethod
    def _is_guarded(cls, host: str, info: ValidationInfo) -> str:
        """Without accounts, whoever reaches the address reads everything: that is said twice or not done."""
        if info.data.get("auth") == "disabled" and not info.data.get("allowed_hosts") and not is_loopback(host):
            raise PydanticCustomError(
                "open",
                "other machines would reach this address, and authentication is disabled: set KANDEV_AUTH=enabled, "
                "or list the names that requests may use in KANDEV_ALLOWED_HOSTS",
            )
        return host

    @model_validator(mode="after")
    def _have_passwords(self) -> Self:
        """The addresses get the passwords that stand apart. Where people sign in, none of them is a placeholder."""
        if self.database_password is not None:
            self.database_url = with_password(self.database_url, self.database_password)
            if self.replica_url is not None:
                self.replica_url = with_password(self.replica_url, self.database_password)
        if self.redis_password is not None:
            self.redis_url = with_password(self.redis_url, self.redis_password)
        for name, address in (("DATABASE", self.database_url), ("REDIS", self.redis_url)):
            if self.auth != "disabled" and is_placeholder(address):
                raise PydanticCustomError(
                    "placeholder",
                    "{variable} is still a placeholder, which authentication would not hold against: set a long random "
                    "one (openssl rand -hex 24); a server that was set up with the placeholder has to be given it, too",
                    {"variable": f"{PREFIX}{name}_PASSWORD"},
                )
        return self

    @model_validator(mode="after")
    def _are_meant(self) -> Self:
        """Where accounts are kept apart, routes for tests are a mistake unless they are asked for by name. A
        certificate without its key, or a key alone, is half of what was meant.
        """
        if (self.rpc_tls_cert is None) != (self.rpc_tls_key is None):
            raise PydanticCustomError(
                "tls", "KANDEV_RPC_TLS_CERT and KANDEV_RPC_TLS_KEY are set together or not at all"
            )
        if self.auth != "disabled" and self.test_controls == "on":
            raise PydanticCustomError(
                "test_controls",
                "KANDEV_TEST_CONTROLS=on is refused with authentication; if it is meant: even-with-authentication",
            )
        return self
