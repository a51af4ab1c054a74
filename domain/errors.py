"""What can go wrong, said once and in the words of the business.

    DomainError
      Invalid          the request can never succeed as written
      NotFound         the thing named does not exist
      AlreadyExists    the name is taken
      Conflict         it exists, but its present state forbids this
      Exhausted        nothing left to give: machines, addresses, quota
      Unsupported      this was never built
      Unauthenticated  we do not know who asks
      Forbidden        we know who asks, and they may not
      Failed           it was tried and did not work, and trying again will not help
      Overdue          time ran out
      Unavailable      what we need is down or not free yet; the same call may work later

Every error carries what a caller needs to act on it: what it is about (`subject`), a stable word
for programs (`reason`), facts to look at, and the next thing to do.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from domain.frozen import Frozen


class Violation(Frozen):
    """One field of a request, and what is wrong with it."""

    field: str
    description: str


class DomainError(Exception):
    """The root. Never raised itself; its kind is the name of the class that is."""

    usual_reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        subject: str = "",
        reason: str = "",
        do: str = "",
        facts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.subject = subject
        self.reason = reason or self.usual_reason
        self.do = do
        self.facts = dict(facts or {})
        self.preface: tuple[str, ...] = ()
        """What whoever follows along is told before it."""

    def after(self, told: Iterable[str]) -> Self:
        """The error, with what is told before it, and before what was to be told already."""
        self.preface = (*told, *self.preface)
        return self

    @property
    def kind(self) -> str:
        """The word under which this error is stored and travels, such as `Conflict`."""
        return type(self).__name__


class Invalid(DomainError):
    """Carries every violation found, not only the first."""

    usual_reason = "INVALID_REQUEST"

    def __init__(
        self,
        message: str,
        *,
        subject: str = "",
        reason: str = "",
        do: str = "",
        facts: Mapping[str, str] | None = None,
        violations: Iterable[Violation] = (),
    ) -> None:
        super().__init__(message, subject=subject, reason=reason, do=do, facts=facts)
        self.violations = tuple(violations)


class NotFound(DomainError):
    usual_reason = "NOT_FOUND"


class AlreadyExists(DomainError):
    usual_reason = "ALREADY_EXISTS"


class Conflict(DomainError):
    usual_reason = "CONFLICT"


class Exhausted(DomainError):
    """May say after how long there is something again."""

    usual_reason = "EXHAUSTED"

    def __init__(
        self,
        message: str,
        *,
        subject: str = "",
        reason: str = "",
        do: str = "",
        facts: Mapping[str, str] | None = None,
        retry_seconds: int = 0,
    ) -> None:
        super().__init__(message, subject=subject, reason=reason, do=do, facts=facts)
        self.retry_seconds = retry_seconds


class Unsupported(DomainError):
    usual_reason = "UNSUPPORTED"


class Unauthenticated(DomainError):
    usual_reason = "UNAUTHENTICATED"


class Forbidden(DomainError):
    usual_reason = "FORBIDDEN"


class Failed(DomainError):
    usual_reason = "FAILED"


class Overdue(DomainError):
    usual_reason = "OVERDUE"


class Unavailable(DomainError):
    usual_reason = "UNAVAILABLE"


KINDS: dict[str, type[DomainError]] = {kind.__name__: kind for kind in DomainError.__subclasses__()}
"""Every kind by its name, so that an error read back from a row is raised as what it was."""


class Failure(Frozen):
    """An error as a row keeps it."""

    kind: str
    message: str
    reason: str = ""

    @classmethod
    def of(cls, error: DomainError) -> "Failure":
        return cls(kind=error.kind, message=error.message, reason=error.reason)

    def error(self) -> DomainError:
        """The error again. A kind that we no longer know is Failed."""
        return KINDS.get(self.kind, Failed)(self.message, reason=self.reason)
