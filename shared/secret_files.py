"""Settings from the environment, and secrets from the files that it names.

A secret in a variable is seen by whoever may list the process or its container. Each variable that holds one may
therefore be left out, and the same name with `_FILE` behind it say which file holds the value.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import AliasChoices, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

PREFIX = "KANDEV_"
SUFFIX = "_FILE"


def variables_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The environment variables of a setting; the first that is set wins."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(choice for choice in alias.choices if isinstance(choice, str))
    return (f"{PREFIX}{name.upper()}",)


def file_variables_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The variables that may name a file with this setting's value; none for what is no secret."""
    return tuple(variable + SUFFIX for variable in variables_of(name, field)) if _is_secret(field.annotation) else ()


class SecretFiles(PydanticBaseSettingsSource):
    """The secrets that stand in files. Raises ValidationError for a file that cannot be read, and where a variable says
    something else already.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The file's text without the line break at its end; None where no variable names a file."""
        given = {variable.upper(): value for variable, value in os.environ.items() if value}
        for variable in file_variables_of(field_name, field):
            if variable not in given:
                continue
            if plain := next((other for other in variables_of(field_name, field) if other in given), None):
                raise self._refused(field_name, f"{plain} and {variable} are both set: leave one out")
            try:
                return Path(given[variable]).read_text(encoding="utf-8").rstrip("\r\n"), field_name, False
            except (OSError, ValueError) as error:
                raise self._refused(
                    field_name, f"the file that {variable} names cannot be read: {_why(error)}"
                ) from None
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """The values found, by the names under which the model takes them."""
        return dict(self._found())

    def _found(self) -> Iterator[tuple[str, str]]:
        for name, field in self.settings_cls.model_fields.items():
            value, _, _ = self.get_field_value(field, name)
            if value is not None:
                yield name, value

    def _refused(self, name: str, sentence: str) -> ValidationError:
        problem = InitErrorDetails(
            type=PydanticCustomError("secret_file", "{sentence}", {"sentence": sentence}), loc=(name,), input=None
        )
        return ValidationError.from_exception_data(self.settings_cls.__name__, [problem], hide_input=True)


class FromEnvironment(BaseSettings):
    """Settings that take their values from the environment and the files that it names, and from nowhere else."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library passes all of them
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What a caller gives comes first."""
        return init_settings, env_settings, SecretFiles(settings_cls)


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(map(_is_secret, get_args(annotation)))


def _why(error: OSError | ValueError) -> str:
    return error.strerror or "it failed" if isinstance(error, OSError) else "it is no text"
