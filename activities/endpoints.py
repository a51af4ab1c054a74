"""Names under which clusters are reached, whatever machines are behind them."""

from temporalio import activity

from activities.errors import never_final
from domain.errors import DomainError
from domain.ports import Endpoint
from domain.ports import Endpoints as Names


class Endpoints:
    def __init__(self, names: Names) -> None:
        self._names = names

    @activity.defn(name="endpoints.ensure")
    async def ensure(self, endpoint: Endpoint) -> None:
        """Safe to repeat: the name leads to exactly these addresses afterwards."""
        await self._names.ensure(endpoint)

    @activity.defn(name="endpoints.remove")
    async def remove(self, endpoint: Endpoint) -> None:
        """Safe to repeat. Never final: a name left behind would lead the next cluster astray."""
        try:
            await self._names.remove(endpoint)
        except DomainError as error:
            raise never_final(error, endpoint.name) from error
