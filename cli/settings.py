"""`kandev-conversation settings`: every setting with its variables, value, default and meaning."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from urllib.parse import urlsplit, urlunsplit

import click
import orjson
from pydantic import SecretStr, ValidationError

from cli.configuration import complaints_of, variables_of_setting
from cli.errors import CANNOT, CommandFailed
from cli.target import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, gateway_url
from shared.secret_files import PREFIX
from shared.settings import Settings

MASK = "***"
URL_DEFAULT = f"the stack that runs here, else {DEFAULT_URL}"
URL_MEANING = (
    "The gateway that commands talk to, unless --url names one: sessions, tail, verify, import, replay, plugin, doctor."
)
PROOF_MEANING = "The access token with which those commands prove themselves to a gateway where people sign in."

# Read by the tests, not by the services.
_TESTS = "KANDEV_TEST_"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting. Secrets are masked in `value` and `default`. `problem`: why the value cannot be used."""

    name: str
    variables: tuple[str, ...]
    value: str
    default: str
    given: bool
    meaning: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable with our prefix that no setting reads. `nearest`: the one that was probably meant; may be empty."""

    variable: str
    nearest: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def settings(as_json: bool) -> None:
    """List every setting: its environment variables, value (secrets masked), default and meaning.

    Exit code 2 when a value cannot be used.
    """
    rows, unknown = setting_rows(os.environ), unknown_variables(os.environ)
    if as_json:
        click.echo(orjson.dumps({"settings": list(map(asdict, rows)), "unknown": list(map(asdict, unknown))}))
    else:
        click.echo("\n".join(map(_text, rows)))
        for row in rows:
            if row.problem:
                given = next((variable for variable in row.variables if os.environ.get(variable)), row.variables[0])
                click.echo(f"{given} cannot be used: {row.problem}", err=True)
    warn_of_unknown(unknown)
    if any(row.problem for row in rows):
        raise SystemExit(CANNOT)


def warn_of_unknown(unknown: Iterable[UnknownVariable]) -> None:
    """Names each on standard error."""
    for one in unknown:
        hint = f" Did you mean {one.nearest}?" if one.nearest else ""
        click.echo(f"Warning: {one.variable} is no setting and has no effect.{hint}", err=True)


def setting_rows(environment: Mapping[str, str]) -> tuple[SettingRow, ...]:
    """Every setting as this environment gives it."""
    problems: dict[str, str] = {}
    values: Settings | None = None
    try:
        values = Settings()
    except ValidationError as error:
        problems = complaints_of(error)
    folded = {name.upper(): value for name, value in environment.items() if value}
    rows = []
    for name, field in Settings.model_fields.items():
        variables = variables_of_setting(name)
        given = any(variable in folded for variable in variables)
        problem = next((problems[variable] for variable in variables if variable in problems), "")
        default = shown(field.default)
        value = shown(getattr(values, name)) if values is not None else (MASK if given else default)
        rows.append(SettingRow(name, variables, value, default, given, field.description or "", problem))
    token = folded.get(TOKEN_VARIABLE, "")
    token_row = SettingRow("token", (TOKEN_VARIABLE,), MASK if token else "", "", bool(token), PROOF_MEANING)
    return (*rows, _url_row(folded.get(URL_VARIABLE, "")), token_row)


def _url_row(value: str) -> SettingRow:
    """Where commands find the gateway; services do not read it."""
    problem, shown_value = "", URL_DEFAULT
    if value:
        shown_value = shown(SecretStr(value))
        try:
            gateway_url(value, URL_VARIABLE)
        except CommandFailed as failed:
            problem, shown_value = f"it {str(failed).removeprefix(URL_VARIABLE).strip()}", MASK
    return SettingRow("url", (URL_VARIABLE,), shown_value, URL_DEFAULT, bool(value), URL_MEANING, problem)


def unknown_variables(environment: Mapping[str, str]) -> tuple[UnknownVariable, ...]:
    """Variables with our prefix that nothing reads."""
    known = {variable for name in Settings.model_fields for variable in variables_of_setting(name)}
    known |= {URL_VARIABLE, TOKEN_VARIABLE}
    return tuple(
        UnknownVariable(name, next(iter(get_close_matches(name.upper(), sorted(known), 1)), ""))
        for name in sorted(environment)
        if name.upper().startswith(PREFIX) and name.upper() not in known and not name.upper().startswith(_TESTS)
    )


def shown(value: object) -> str:
    """A value for people: of an address all but its password, of other secrets nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, SecretStr):
        return str(value)
    try:
        parts = urlsplit(value.get_secret_value())
        place = parts.hostname or ""
        place = f"[{place}]" if ":" in place else place
        place += f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return MASK
    if not parts.scheme or not parts.netloc:
        return MASK
    user = f"{parts.username or ''}{f':{MASK}' if parts.password is not None else ''}@" if "@" in parts.netloc else ""
    return urlunsplit((parts.scheme, user + place, parts.path, MASK if parts.query else "", ""))


def _text(row: SettingRow) -> str:
    variables, value = " or ".join(row.variables), row.value or "(none)"
    source = "" if row.given else "  (default)"
    if row.given and row.value != row.default:
        source = f"  (default: {row.default or 'none'})"
    return f"{click.style(variables, bold=True)} = {value}{source}\n    {row.meaning}"
