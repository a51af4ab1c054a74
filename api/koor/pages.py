"""What the pages of the koor contract ask for before anybody has signed in: whether somebody is
there, and how one can sign in. Documents of their own, which are no messages."""

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from api.build import Build


def routes(built: Build) -> list[Route]:
    # Nobody signs in through others here, so there is none to choose: pages then ask for a name and
    # a password.
    known = {"version": built.version, "login": {"providers": []}}

    async def ping(_request: Request) -> Response:
        return JSONResponse({"message": "Pong"})

    async def config(_request: Request) -> Response:
        return JSONResponse(known, headers={"cache-control": "no-store"})

    async def clear(_request: Request) -> Response:
        """What pages have kept in the browser goes; sign in again then."""
        cleared = {"clear-site-data": '"cache", "cookies", "storage"', "cache-control": "no-store"}
        return PlainTextResponse("what this site kept in the browser is cleared\n", headers=cleared)

    return [
        Route("/api/clear-site-data", clear, methods=["GET"]),
        Route("/api/ping", ping, methods=["GET"]),
        Route("/api/config", config, methods=["POST"]),
    ]
