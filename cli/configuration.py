"""Settings as commands read them: what is wrong with the environment becomes a sentence."""

import os

from pydantic import AliasChoices, ValidationError

from cli.errors import CommandFailed
from shared.settings import Settings

PREFIX = "KANDEV_"


def load_settings() -> Settings:
    """The settings of this environment. Raises `CommandFailed` that names each variable and never its value."""
    try:
        return Settings()
    except ValidationError as error:
        complaints = "; ".join(f"{name}: {reason}" for name, reason in complaints_of(error).items())
        raise CommandFailed(
            f"Settings cannot be used: {complaints}. `kandev-conversation settings` explains them."
        ) from None


def variables_of(name: str) -> tuple[str, ...]:
    """The environment variables of a setting; the first that is set wins."""
    alias = Settings.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(choice for choice in alias.choices if isinstance(choice, str))
    return (f"{PREFIX}{name.upper()}",)


def variables_given(name: str) -> bool:
    """Whether the environment gives this setting a value; an empty one is none."""
    environment = {variable.upper() for variable, value in os.environ.items() if value}
    return any(variable in environment for variable in variables_of(name))


def complaints_of(error: ValidationError) -> dict[str, str]:
    """What is wrong, by environment variable."""
    return {
        _variable(str(problem["loc"][0])): problem["msg"]
        for problem in error.errors(include_input=False, include_url=False, include_context=False)
    }


def _variable(place: str) -> str:
    """The variable that gave the value. `place`: of an error, a setting by its name or by one of its variables."""
    for name in Settings.model_fields:
        variables = variables_of(name)
        if place == name or place in variables:
            given = {variable.upper() for variable, value in os.environ.items() if value}
            return next((variable for variable in variables if variable in given), variables[0])
    return place
