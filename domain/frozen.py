"""The one base of what is handed around: it cannot change and knows no field it was not given."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value. Fields are only ever added, with a default, since rows and histories hold old ones;
    an unknown field is ignored for the same reason: a newer writer may have added it."""

    model_config = ConfigDict(frozen=True, extra="ignore")
