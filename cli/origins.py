"""Every setting there is, what it is now, and who said so."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from settings import PREFIX, Settings
from systems import BELOW_STATE, HIDDEN, Part

STARS = "***"


class Origin(BaseModel):
    """One setting, its value and who said so."""

    name: str
    value: str
    origin: Literal["default", "file", "environment", "state"]
    """`state`: nobody set it, and it lies below a `state` that somebody set."""
    variable: str
    """The environment variable that would set it."""
    description: str


def origins(settings: Settings) -> list[Origin]:
    """Every setting with its value and its source. Secrets are not shown."""
    env: dict[str, Any] = EnvSettingsSource(Settings)()
    file: dict[str, Any] = TomlConfigSettingsSource(Settings)()
    found = []
    for path, value, description in _leaves(settings):
        origin: Literal["default", "file", "environment", "state"] = "default"
        name = ".".join(path)
        if _holds(env, path):
            origin = "environment"
        elif _holds(file, path):
            origin = "file"
        elif name in BELOW_STATE and ("state" in env or "state" in file):
            origin = "state"
        found.append(
            Origin(
                name=name,
                value=str(value),
                origin=origin,
                variable=PREFIX + "__".join(path).upper(),
                description=description,
            )
        )
    return found


def _leaves(
    part: BaseModel, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if isinstance(value, Part):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), _shown(field, value), field.description or ""


def _shown(field: FieldInfo, value: Any) -> Any:
    """A value, or as many stars as hide one that may hold a secret."""
    extra = field.json_schema_extra
    return STARS if value and isinstance(extra, dict) and extra.get(HIDDEN) else value


def _holds(given: dict[str, Any], path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(given, dict) or name not in given:
            return False
        given = given[name]
    return True
