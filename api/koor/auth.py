"""Signing in and out, for everybody: people, the command and the pages of the koor contract."""

from api.asking import Context, notes
from api.gate import invalid, presented
from api.origin import Origins
from api.sign_in import SignIn
from api.signed_in import SignedIn
from domain.errors import Unauthenticated
from protos.gen.koor.api.services.auth import auth_pb2 as pb
from protos.gen.koor.api.services.auth.auth_pb2_grpc import AuthServiceServicer
from store.tokens import Tokens, digest_of

ACCOUNT = "data-control-center-user-login-"
"""What clients have stored of an account begins with this."""


class AuthService(AuthServiceServicer):
    def __init__(self, sign_in: SignIn, tokens: Tokens, gate: SignedIn, origins: Origins) -> None:
        self._sign_in = sign_in
        self._tokens = tokens
        self._gate = gate
        self._origins = origins

    async def Login(self, request: pb.LoginRequest, context: Context) -> pb.LoginResponse:
        token, info = await self._sign_in.sign_in(
            request.username, request.password, self._origins.place(context)
        )
        reply = pb.LoginResponse(token=token, account_id=ACCOUNT + request.username)
        reply.expires.timestamp.FromDatetime(info.expires)
        return reply

    async def Logout(self, request: pb.LogoutRequest, context: Context) -> pb.LogoutResponse:
        token = presented(context.invocation_metadata() or ())
        if not token:
            raise Unauthenticated("no token: nobody is signed in", reason="NO_TOKEN")
        ended = await self._tokens.revoke(digest_of(token))
        if ended is None:
            raise invalid()
        notes().user, notes().is_told = ended.user, ended.was_good
        self._gate.forget()
        return pb.LogoutResponse(success=True)

    async def CheckToken(
        self, request: pb.CheckTokenRequest, context: Context
    ) -> pb.CheckTokenResponse:
        return pb.CheckTokenResponse(success=await self._gate.knows(request.token))
