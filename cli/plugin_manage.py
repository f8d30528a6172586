"""`kandev-conversation plugin install`, `list`, `enable`, `disable`, `remove`, `token`, `config`: the plugins of a
gateway.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from cli.errors import CommandFailed
from cli.options import url_option
from cli.plugin_routes import Json, ask, named, send
from cli.tables import table
from services.gateway.plugins.numbers import altered_number

_MOST_READ = 1 << 20
_KEEP_IT = (
    "That is the token with which its own process calls Host RPC, shown this once. "
    "`kandev-conversation plugin token {}` makes another."
)
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


@click.command()
@click.argument("package", metavar="FILE|URL")
@_AS_JSON
@url_option
def install(package: str, as_json: bool, url: str | None) -> None:
    """Install a plugin, or put another version in the place of the one that is there.

    A file is uploaded. A URL is fetched by the gateway itself, from places that its setting KANDEV_PLUGIN_SOURCES
    lists. Settings and what the plugin keeps for users survive another version; an installed one stays as it is when
    the package is refused.

    \b
    Example:
      kandev-conversation plugin install my-plugin-1.0.0.tar.gz
    """
    answer = ask(url, "POST", "/install", {"url": package}) if "://" in package else send(url, Path(package))
    plugin = answer["plugin"]
    if as_json:
        _print(answer)
    click.echo(f"{plugin['id']} {plugin['version']} is installed and {plugin['status']}.", err=True)
    if "token" in answer and not as_json:
        click.echo(answer["token"])
        click.echo(_KEEP_IT.format(plugin["id"]), err=True)
    if "warning" in answer:
        click.echo(f"Note: {answer['warning']}.", err=True)


@click.command(name="list")
@_AS_JSON
@url_option
def list_(as_json: bool, url: str | None) -> None:
    """List the installed plugins, by id."""
    answer = ask(url, "GET", "")
    if as_json:
        _print(answer)
        return
    rows = [
        (each["id"], each["version"], each["status"], each["installed_at"][:19] + "Z", _title(each))
        for each in answer["plugins"]
    ]
    for line in table(("ID", "VERSION", "STATE", "INSTALLED", "NAME"), rows):
        click.echo(line)
    if not rows:
        click.echo("No plugin yet. `kandev-conversation plugin install FILE` installs one.", err=True)


@click.command()
@click.argument("plugin_id", metavar="ID")
@url_option
def enable(plugin_id: str, url: str | None) -> None:
    """Make a plugin active."""
    if ask(url, "GET", named(plugin_id))["status"] == "active":
        click.echo(f"{plugin_id} is active already.", err=True)
        return
    ask(url, "POST", f"{named(plugin_id)}/enable")
    click.echo(f"{plugin_id} is active.", err=True)


@click.command()
@click.argument("plugin_id", metavar="ID")
@url_option
def disable(plugin_id: str, url: str | None) -> None:
    """Take a plugin out of use; what it reads and follows ends at once. Everything of it is kept."""
    if ask(url, "GET", named(plugin_id))["status"] == "disabled":
        click.echo(f"{plugin_id} is disabled already.", err=True)
        return
    ask(url, "POST", f"{named(plugin_id)}/disable")
    click.echo(f"{plugin_id} is disabled.", err=True)


@click.command()
@click.argument("plugin_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def remove(plugin_id: str, yes: bool, url: str | None) -> None:
    """Remove a plugin with its package, its settings and all that it keeps for users."""
    if not yes:
        click.confirm(f"Remove {plugin_id}, its settings and what it keeps for users?", abort=True, err=True)
    ask(url, "DELETE", named(plugin_id))
    click.echo(f"{plugin_id} is removed.", err=True)


@click.command()
@click.argument("plugin_id", metavar="ID")
@url_option
def token(plugin_id: str, url: str | None) -> None:
    """Make another token for a plugin's own process and print it: this once, nobody can read it again.

    The earlier one ends: at this gateway at once, at others within five seconds.

    \b
    Example:
      export KANDEV_PLUGIN_TOKEN="$(kandev-conversation plugin token standup)"
    """
    click.echo(ask(url, "POST", f"{named(plugin_id)}/token")["token"])


@click.command()
@click.argument("plugin_id", metavar="ID")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting; JSON, or plain text.")
@click.option("--unset", "removals", multiple=True, metavar="NAME", help="Leave a setting out.")
@click.option("--from", "source", type=click.File("rb"), help="Replace all by a JSON object; - is standard input.")
@url_option
def config(
    plugin_id: str, changes: Sequence[str], removals: Sequence[str], source: BinaryIO | None, url: str | None
) -> None:
    """Show a plugin's settings as JSON, secrets masked; or change them.

    A secret that comes as its mask stays what it is. Secrets do not belong on a command line: give them with --from.

    \b
    Example:
      kandev-conversation plugin config notes --set lines=3 --unset colour
    """
    path = f"{named(plugin_id)}/config"
    if source is not None and (changes or removals):
        raise CommandFailed("--from replaces all settings: give it alone.")
    settings = ask(url, "GET", path)["config"] if source is None else _object(source.read(_MOST_READ + 1))
    if source is None and not changes and not removals:
        _print(settings)
        return
    for name in removals:
        settings.pop(name, None)
    settings.update(_setting(change) for change in changes)
    ask(url, "PATCH", path, {"config": settings})
    click.echo(f"The settings of {plugin_id} are changed.", err=True)


def _title(plugin: Json) -> str:
    problem = plugin.get("last_error")
    return f"{plugin.get('display_name', '')}{f' (error: {problem})' if problem else ''}".strip()


def _setting(change: str) -> tuple[str, object]:
    name, separator, value = change.partition("=")
    if not separator or not name:
        raise CommandFailed("--set takes NAME=VALUE.")
    try:
        text = value.encode()
        name.encode()
    except UnicodeEncodeError:
        raise CommandFailed("--set takes text in UTF-8.") from None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return name, value
    if altered := altered_number(text):
        raise CommandFailed(f"--set {name}: {altered}: '{name}=\"...\"'.")
    return name, found


def _object(text: bytes) -> Json:
    if len(text) > _MOST_READ:
        raise CommandFailed(f"--from holds more than {_MOST_READ:,} bytes, more than any settings.")
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise CommandFailed("--from is no JSON object.")
    if altered := altered_number(text):
        raise CommandFailed(f"--from: {altered}.")
    return found


def _print(found: object) -> None:
    click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
