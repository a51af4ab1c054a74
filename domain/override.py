"""How far a call about an instance heeds its resource manager, and work that is under way."""

from enum import StrEnum


class Override(StrEnum):
    NONE = "NO_OVERRIDE"
    CRM_ERRORS = "IGNORE_CRM_ERRORS"
    CRM = "IGNORE_CRM"
    TRANSIENT_STATE = "IGNORE_TRANSIENT_STATE"
    CRM_AND_TRANSIENT_STATE = "IGNORE_CRM_AND_TRANSIENT_STATE"

    @property
    def ignores_crm(self) -> bool:
        """Whether nobody is asked or waited for."""
        return self in {Override.CRM, Override.CRM_AND_TRANSIENT_STATE}

    @property
    def displaces(self) -> bool:
        """Whether work that is under way gives way."""
        return self in {Override.TRANSIENT_STATE, Override.CRM_AND_TRANSIENT_STATE}

    @property
    def forgives(self) -> bool:
        """Whether a failure counts as success."""
        return self is Override.CRM_ERRORS
