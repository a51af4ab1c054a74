"""Whether calls are let in at all: not before the database is one that we can work with."""

from domain.errors import Unavailable
from store import schema
from store.engine import Database
from store.secrets import Secrets


class Admission:
    def __init__(self, database: Database, vault: Secrets) -> None:
        self._database = database
        self._vault = vault
        self._admits = False

    async def admit(self) -> None:
        """Let calls in once the database has our tables and the key opens what lies in them:
        nothing is sealed before. Unavailable until then, Failed if it is the wrong key."""
        if self._admits:
            return
        if lacking := await self._tables():
            raise Unavailable(
                f"the database is {lacking}",
                reason="DATABASE_UNAVAILABLE",
                do="try again with the same request id once that is done",
            )
        await self._vault.verify()
        self._admits = True

    async def trouble(self) -> str:
        """Why the database cannot be used, in a few words. Empty: it can."""
        lacking = await self._tables()
        if not lacking:
            await self.admit()
        return lacking

    async def _tables(self) -> str:
        if await schema.at_head(self._database):
            return ""
        return f"not at {schema.newest()}: run python -m store migrate"
