"""What is on offer: the Kubernetes releases in the file that the settings name, or the built-in."""

import tomllib

from pydantic import ValidationError

from domain.errors import Invalid
from domain.releases import CATALOGUE, Catalogue
from settings import Settings


def catalogue(settings: Settings) -> Catalogue:
    """The releases on offer: those in the file, or those built in. Invalid says where in the file
    something is wrong."""
    path = settings.catalogue
    if path is None:
        return CATALOGUE
    try:
        return Catalogue.model_validate(tomllib.loads(path.read_text()), extra="forbid")
    except OSError as error:
        wrong = [error.strerror or str(error)]
    except ValidationError as error:
        wrong = [_placed(each["loc"], each["msg"]) for each in error.errors(include_url=False)]
    except ValueError as error:  # it tells the line
        wrong = [str(error)]
    raise Invalid(
        "\n  ".join([f"the catalogue {path} is not valid", *wrong]),
        do="correct it, or name another as WINDLASS_CATALOGUE",
    )


def _placed(where: tuple[int | str, ...], what: str) -> str:
    """What is wrong, after where it is. Entries are counted from one, as people do."""
    words = [f"entry {each + 1}" if isinstance(each, int) else each for each in where]
    return ": ".join([*words, what.removeprefix("Value error, ")])
