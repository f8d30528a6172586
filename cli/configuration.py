"""Settings as commands read them: what is wrong with the environment becomes a sentence."""

import os
import re

from pydantic import ValidationError

from cli.errors import CommandFailed
from shared.secret_files import PREFIX, file_variables_of, variables_of
from shared.settings import Settings

_NAMED = re.compile(rf"{PREFIX}[A-Z_]+")


def load_settings() -> Settings:
    """The settings of this environment. Raises `CommandFailed` that names each variable and never its value."""
    try:
        return Settings()
    except ValidationError as error:
        complaints = "; ".join(f"{name}: {reason}" for name, reason in complaints_of(error).items())
        raise CommandFailed(
            f"Settings cannot be used: {complaints}. `kandev-conversation settings` explains them."
        ) from None


def variables_of_setting(name: str) -> tuple[str, ...]:
    """Every environment variable that can give a setting its value, those that name a file last."""
    field = Settings.model_fields[name]
    return variables_of(name, field) + file_variables_of(name, field)


def variables_given(name: str) -> bool:
    """Whether the environment gives this setting a value; an empty one is none."""
    environment = {variable.upper() for variable, value in os.environ.items() if value}
    return any(variable in environment for variable in variables_of_setting(name))


def complaints_of(error: ValidationError) -> dict[str, str]:
    """What is wrong, by environment variable. What several settings say together goes by the first that is named."""
    return {
        _variable(str(problem["loc"][0])) if problem["loc"] else _first_named(problem["msg"]): problem["msg"]
        for problem in error.errors(include_input=False, include_url=False, include_context=False)
    }


def _variable(place: str) -> str:
    """The variable that gave the value. `place`: of an error, a setting by its name or by one of its variables."""
    for name in Settings.model_fields:
        variables = variables_of_setting(name)
        if place == name or place in variables:
            given = {variable.upper() for variable, value in os.environ.items() if value}
            return next((variable for variable in variables if variable in given), variables[0])
    return place


def _first_named(sentence: str) -> str:
    found = _NAMED.search(sentence)
    return found.group() if found else PREFIX
