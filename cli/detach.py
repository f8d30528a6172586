"""`kandev-conversation detach`: takes everything of ours out of a database again."""

import click

from cli.errors import CommandFailed
from cli.schema import database_place, listed, on_schema
from services.revision.schema import detach as schema

NOT_DETACHED = "The database was not left"


@click.command()
@click.option("--plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def detach(plan: bool, yes: bool) -> None:
    """Take all of this service out of the database again, and leave its conversations as they are.

    Our triggers, indexes, publication, columns and schemas go, with all that the schemas hold: accounts, tokens,
    plugins and their settings. kandev's own triggers come back, and its tables are as they were before `migrate`.
    No row of a conversation is changed; prompts keep the ordinals that they were given.

    In a database that `migrate` made, the tables of conversations stay, with their rows.

    Stop the services first. It asks before it begins, and what is interrupted goes on with the next run. The database
    is that of KANDEV_DATABASE_URL (or DATABASE_URL); when neither is set, that of the embedded stack running here.

    \b
    Examples:
      kandev-conversation detach --plan
      kandev-conversation detach --yes
    """
    planned = on_schema("detach", NOT_DETACHED, schema.planned)
    if not planned.steps:
        click.echo(f"There is nothing of ours in the database at {database_place()}.")
        return
    if plan or not yes:
        click.echo(f"In the database at {database_place()}, this would:")
        listed(step.text for step in planned.steps)
        if planned.obstacles:
            click.echo("Before that:")
            listed(planned.obstacles)
    if plan:
        click.echo("Nothing was changed.")
        return
    if planned.obstacles:
        raise CommandFailed(f"{NOT_DETACHED}: {'; '.join(planned.obstacles)}.")
    if not yes:
        click.confirm("Do all of this?", abort=True, err=True)
    on_schema("detach", NOT_DETACHED, lambda connection: schema.detach(connection, lambda step: click.echo(step.text)))
    click.echo(f"Nothing of ours is left in the database at {database_place()}.")
