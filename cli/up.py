"""`kandev-conversation up`: the whole service on this machine."""

import asyncio
from pathlib import Path
from typing import NoReturn

import asyncpg
import click

from cli.configuration import load_settings
from cli.errors import CommandFailed
from deploy.local.errors import StackError
from deploy.local.log import Log
from deploy.local.stack import ServiceCommand, StackOptions, run_stack, service_command
from services.gateway.identity.accounts import ADMINISTRATED
from services.revision.schema.migrate import migrate
from services.revision.schema.numbered import SchemaError
from shared.reasons import reason

CANNOT_START = 2


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the gateway. [default: PORT, else 8080 or a free one]"
)
@click.option("--gateways", type=click.IntRange(1, 32), default=1, show_default=True, help="Gateways to start.")
@click.option("--readers", type=click.IntRange(1, 32), default=1, show_default=True, help="Readers to start.")
@click.option(
    "--revisions", type=click.IntRange(1, 32), default=1, show_default=True, help="Revision services to start."
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
    run(chosen(port=port, gateways=gateways, readers=readers, revisions=revisions, data=data))


def chosen(*, port: int | None, gateways: int, readers: int, revisions: int, data: Path | None) -> StackOptions:
    """What the command line and the environment ask for; the command line wins. A bad value ends the process."""
    try:
        settings = load_settings()
    except CommandFailed as failed:
        refuse(str(failed))
    given = settings.model_fields_set
    return StackOptions(
        data_dir=data or settings.data_dir,
        gateways=gateways,
        readers=readers,
        revisions=revisions,
        host=settings.host,
        port=port or (settings.port if "port" in given else None),
        rpc_port=settings.rpc_port if "rpc_port" in given else None,
        database_url=settings.database_url.get_secret_value() if "database_url" in given else None,
        redis_url=settings.redis_url.get_secret_value() if "redis_url" in given else None,
    )


def run(options: StackOptions, command: ServiceCommand = service_command) -> None:
    """Runs the stack until it is stopped; ends the process with code 2 and a sentence when it cannot start."""
    try:
        asyncio.run(run_stack(options, Log(), migrate=_migrated, command=command))
    except StackError as error:
        refuse(str(error))


def refuse(sentence: str) -> NoReturn:
    """Ends the process with code 2 after saying why."""
    click.echo(f"Cannot start: {sentence}", err=True)
    raise SystemExit(CANNOT_START)


async def _migrated(url: str) -> str:
    """Brings the database to this version's schema; says so where nobody could administer what people sign in to."""
    try:
        await migrate(url)
        connection = await asyncpg.connect(url)
        try:
            administrated = await connection.fetchval(ADMINISTRATED)
        finally:
            await connection.close()
    except SchemaError as error:
        raise StackError(str(error)) from error
    except asyncpg.PostgresError as error:
        raise StackError(f"The database could not be migrated ({reason(error)}).") from error
    if administrated or load_settings().auth != "enabled":
        return ""
    return "people sign in, and there is no administrator yet: kandev-conversation user add NAME --admin"
