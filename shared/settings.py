"""Settings of every process, read from the environment: one prefix, `KANDEV_`, and the usual aliases for the two
addresses.

`kandev-conversation settings` lists them with their meaning and value (secrets masked).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseSettings):
    """Every setting. Addresses hold passwords and are therefore secrets: read them with `.get_secret_value()`."""

    model_config = SettingsConfigDict(
        env_prefix="KANDEV_", extra="ignore", hide_input_in_errors=True, populate_by_name=True
    )

    database_url: SecretStr = Field(
        default=SecretStr("postgresql://localhost:5432/kandev"),
        validation_alias=AliasChoices("KANDEV_DATABASE_URL", "DATABASE_URL"),
        description="PostgreSQL primary that holds the source. The revision service needs the REPLICATION right there.",
    )
    replica_url: SecretStr | None = Field(
        default=None,
        description="A read replica from which readers answer what need not come from the primary.",
    )
    redis_url: SecretStr = Field(
        default=SecretStr("redis://localhost:6379/0"),
        validation_alias=AliasChoices("KANDEV_REDIS_URL", "REDIS_URL"),
        description="Redis (or a compatible server) that carries the streams. As confidential as the database.",
    )
    host: str = Field(default="127.0.0.1", description="Address on which the gateway listens.")
    port: Port = Field(
        default=8080,
        validation_alias=AliasChoices("KANDEV_PORT", "PORT"),
        description="Port of the gateway's HTTP routes and WebSocket.",
    )
    metrics_port: Port = Field(default=9100, description="Port of /health and /ready of this process. 0: a free one.")
    metrics_host: str = Field(default="127.0.0.1", description="Address of the metrics port.")
    allowed_hosts: str = Field(
        default="",
        description="Comma-separated host names, besides loopback, that requests may name (mode disabled).",
    )
    auth: Literal["disabled"] = Field(default="disabled", description="Authentication mode. disabled: one local user.")
    database_pool: Annotated[int, Field(ge=1, le=200)] = Field(
        default=8, description="Most database connections of this process."
    )
    request_timeout: Annotated[float, Field(gt=0, le=60)] = Field(
        default=5.0,
        description="Seconds until a read or command that nobody answered fails with a retryable error.",
    )
    data_dir: Path = Field(default=Path(".data"), description="Where the embedded stack keeps its data.")
    log_format: Literal["text", "json"] = Field(default="text", description="Log lines for people or for machines.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe level that is logged."
    )
