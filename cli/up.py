"""`kandev-conversation up`: the whole service on this machine."""

import asyncio
from pathlib import Path

import asyncpg
import click
from pydantic import SecretStr, ValidationError

from deploy.local.errors import StackError
from deploy.local.log import Log
from deploy.local.stack import StackOptions, run_stack
from services.revision.schema.migrate import SchemaError, migrate
from shared.settings import Settings

CANNOT_START = 2


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the gateway. [default: PORT, else 8080 or a free one]"
)
@click.option(
    "--gateways", type=click.IntRange(1, 32), default=1, show_default=True, help="How many gateways to start."
)
@click.option("--readers", type=click.IntRange(1, 32), default=1, show_default=True, help="How many readers to start.")
@click.option(
    "--revisions", type=click.IntRange(1, 32), default=1, show_default=True, help="How many revision services to start."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder. [default: KANDEV_DATA_DIR, else .data]",
)
def up(port: int | None, gateways: int, readers: int, revisions: int, data: Path | None) -> None:
    """Start everything here and keep it running until ctrl-c; the data stays.

    DATABASE_URL and REDIS_URL, when set, are used in place of the embedded servers.
    """
    try:
        settings = Settings()
        options = StackOptions(
            data_dir=data or settings.data_dir,
            gateways=gateways,
            readers=readers,
            revisions=revisions,
            host=settings.host,
            port=port or (settings.port if "port" in settings.model_fields_set else None),
            database_url=_given(settings, "database_url", settings.database_url),
            redis_url=_given(settings, "redis_url", settings.redis_url),
        )
        asyncio.run(run_stack(options, Log(), migrate=_migrate))
    except ValidationError as error:
        _refuse(
            "; ".join(
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                for problem in error.errors(include_input=False)
            )
        )
    except StackError as error:
        _refuse(str(error))


def _given(settings: Settings, name: str, value: SecretStr) -> str | None:
    return value.get_secret_value() if name in settings.model_fields_set else None


async def _migrate(url: str) -> None:
    try:
        await migrate(url)
    except SchemaError as error:
        raise StackError(str(error)) from error
    except asyncpg.PostgresError as error:
        raise StackError(
            f"The database could not be migrated ({type(error).__name__}, SQLSTATE {error.sqlstate})."
        ) from error


def _refuse(sentence: str) -> None:
    click.echo(f"Cannot start: {sentence}", err=True)
    raise SystemExit(CANNOT_START)
