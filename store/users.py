"""Users: who can sign in, as whom, and with what."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.access import Principal, Role, User
from domain.errors import AlreadyExists, Conflict, NotFound
from store.access_rows import TokenRow, UserRow
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import now

MOST = 1000
"""More than are shown at once."""


class Lock(NamedTuple):
    """Whom a password would let in, and the password as it is kept."""

    name: str
    password: str


class Users(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._together: Gather[str, Principal | None] = Gather(self._principals)

    @transaction
    async def add(self, session: AsyncSession, principal: Principal, password: str) -> User:
        """Let somebody sign in. The password is a hash, or empty."""
        if await session.get(UserRow, principal.name):
            raise AlreadyExists(f"user {principal.name} already exists", subject=principal.name)
        row = UserRow(
            name=principal.name,
            tenant=principal.tenant,
            role=principal.role,
            developer=principal.developer,
            password=password,
            disabled=False,
            created=now(),
        )
        session.add(row)
        return _user(row)

    @transaction
    async def begin(self, session: AsyncSession, name: str, password: str) -> bool:
        """Add the first administrator, if nobody can sign in yet."""
        if await session.scalar(select(func.count()).select_from(UserRow)):
            return False
        row = UserRow(
            name=name,
            tenant=Principal.model_fields["tenant"].default,
            role=Role.ADMIN,
            developer="",
            password=password,
            disabled=False,
            created=now(),
        )
        session.add(row)
        return True

    @reading
    async def lock(self, session: AsyncSession, name: str) -> Lock | None:
        """What has to be known to let somebody in. None: nobody of that name may."""
        row = await session.get(UserRow, name)
        if row is None or row.disabled or not row.password:
            return None
        return Lock(row.name, row.password)

    async def principal(self, name: str) -> Principal | None:
        """Who that is, if they may come in. Those who ask together are answered by one query."""
        return await self._together.ask(name)

    @reading
    async def all(self, session: AsyncSession) -> Sequence[User]:
        """Everybody, by name."""
        rows = await session.scalars(select(UserRow).order_by(UserRow.name).limit(MOST))
        return [_user(row) for row in rows]

    @transaction
    async def set_password(self, session: AsyncSession, name: str, password: str) -> None:
        """Change what somebody signs in with. Whoever signed in with the old one is out, and so
        are tokens that were made with others."""
        (await _held(session, name)).password = password
        await _revoke_all(session, name, (TokenRow.label == "") | (TokenRow.parent != ""))

    @transaction
    async def rehash(self, session: AsyncSession, lock: Lock, password: str) -> None:
        """Keep the same password under newer parameters, unless it was changed meanwhile."""
        same = (UserRow.name == lock.name) & (UserRow.password == lock.password)
        await session.execute(update(UserRow).where(same).values(password=password))

    @transaction
    async def disable(self, session: AsyncSession, name: str, *, disabled: bool) -> User:
        """Keep somebody out, with every token they have; or let them in again. The last
        administrator stays."""
        # All of them, in one order: two who disable each other take turns.
        standing = (UserRow.role == Role.ADMIN) & ~UserRow.disabled
        held = select(UserRow.name).where(standing).order_by(UserRow.name).with_for_update()
        admins = set(await session.scalars(held))
        row = await _held(session, name)
        if disabled and admins == {name}:
            raise Conflict(
                f"{name} is the last administrator",
                subject=name,
                reason="LAST_ADMINISTRATOR",
                do="add another one first",
            )
        row.disabled = disabled
        if disabled:
            await _revoke_all(session, name, TokenRow.user_name == name)
        return _user(row)

    @reading
    async def _principals(
        self, session: AsyncSession, names: Sequence[str]
    ) -> list[Principal | Exception | None]:
        rows = await session.scalars(select(UserRow).where(UserRow.name.in_(set(names))))
        found = {row.name: principal_of(row) for row in rows if not row.disabled}
        return [found.get(name) for name in names]


async def _held(session: AsyncSession, name: str) -> UserRow:
    row = await session.get(UserRow, name, with_for_update=True)
    if row is None:
        raise NotFound(f"there is no user {name}", subject=name, reason="USER_NOT_FOUND")
    return row


async def _revoke_all(session: AsyncSession, name: str, which: object) -> None:
    good = (TokenRow.user_name == name) & (TokenRow.revoked.is_(None))
    moment = now()
    revoked = update(TokenRow).where(good, which)  # type: ignore[arg-type]
    await session.execute(revoked.values(revoked=moment, ended=moment))


def principal_of(row: UserRow) -> Principal:
    return Principal(name=row.name, role=Role(row.role), tenant=row.tenant, developer=row.developer)


def _user(row: UserRow) -> User:
    return User(
        principal=principal_of(row),
        disabled=row.disabled,
        has_password=bool(row.password),
        created=row.created,
    )
