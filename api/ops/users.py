"""Users and their tokens: who may come in, and as whom."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from api.asking import Context, principal, running
from api.errors import wrong
from api.ops.readings import NAME_LENGTH, named
from api.origin import Origins
from api.sign_in import SignIn
from api.signed_in import SignedIn
from domain import access
from domain.access import Principal, Role, Session, TokenInfo, User
from domain.errors import Forbidden, Invalid, Unauthenticated, Violation
from domain.node_scope import covers, is_scope
from domain.password_rules import weak
from protos.gen.ops import access_pb2 as pb
from protos.gen.ops.access_pb2_grpc import TokensServicer, UsersServicer
from store import tokens as store_tokens
from store import users as store_users
from store.passwords import Passwords

ROLES: "dict[Role, pb.Role.ValueType]" = {
    Role.VIEWER: pb.VIEWER,
    Role.DEVELOPER: pb.DEVELOPER,
    Role.OPERATOR: pb.OPERATOR,
    Role.ADMIN: pb.ADMIN,
    Role.AGENT: pb.AGENT,
}
SAID = {number: role for role, number in ROLES.items()}

USUAL_DAYS, MOST_DAYS = 30, 3660
LABEL_LENGTH = 64
MOST_CLOUDLETS = 100
MOST_NODES = 1000


class Users(UsersServicer):
    def __init__(
        self,
        users: store_users.Users,
        passwords: Passwords,
        sign_in: SignIn,
        gate: SignedIn,
        origins: Origins,
    ) -> None:
        self._users = users
        self._passwords = passwords
        self._sign_in = sign_in
        self._gate = gate
        self._origins = origins

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        session = running().session
        who = session.principal
        reply = pb.WhoAmIResponse(role=ROLES[who.role], developer=who.developer)
        reply.name = "" if who == access.ANYONE else who.name
        if session.expires is not None:
            reply.expires.FromDatetime(session.expires)
        return reply

    async def Add(self, request: pb.AddUserRequest, context: Context) -> pb.User:
        who = _wanted(request)
        password = await self._passwords.hashed(request.password) if request.password else ""
        return _user(await self._users.add(who, password))

    async def List(self, request: pb.ListUsersRequest, context: Context) -> pb.ListUsersResponse:
        return pb.ListUsersResponse(users=map(_user, await self._users.all()))

    async def SetPassword(
        self, request: pb.SetPasswordRequest, context: Context
    ) -> pb.SetPasswordResponse:
        name = _somebody(request.name)
        if violations := weak(request.password, name):
            raise Invalid(violations[0].description, violations=violations)
        if name == principal().name:  # a token is not enough for this
            await self._sign_in.prove(name, request.old_password, self._origins.place(context))
        await self._users.set_password(name, await self._passwords.hashed(request.password))
        self._gate.forget()
        return pb.SetPasswordResponse()

    async def SetDisabled(self, request: pb.SetDisabledRequest, context: Context) -> pb.User:
        name = named("name", request.name)
        user = await self._users.disable(name, disabled=request.disabled)
        self._gate.forget()
        return _user(user)


class Tokens(TokensServicer):
    def __init__(self, tokens: store_tokens.Tokens, gate: SignedIn, origins: Origins) -> None:
        self._tokens = tokens
        self._gate = gate
        self._origins = origins

    async def Create(
        self, request: pb.CreateTokenRequest, context: Context
    ) -> pb.CreateTokenResponse:
        user, session = _somebody(request.user), running().session
        if not 0 <= request.days <= MOST_DAYS:
            raise wrong("days", f"must be 1 to {MOST_DAYS}, or 0 for {USUAL_DAYS}")
        if len(request.label) > LABEL_LENGTH or not request.label.isprintable():
            raise wrong("label", f"must be printable, and have at most {LABEL_LENGTH} characters")
        secret, info = await self._tokens.issue(
            user,
            lifetime=timedelta(days=request.days or USUAL_DAYS),
            label=request.label or "unnamed",
            source=self._origins.place(context),
            cloudlets=_bound(request.cloudlets),
            nodes=_bound_nodes(request.nodes),
            parent=session.digest if user == session.principal.name else "",
            certificate=_certificate(session) if user == session.principal.name else None,
        )
        return pb.CreateTokenResponse(token=_token(info), secret=secret)

    async def List(self, request: pb.ListTokensRequest, context: Context) -> pb.ListTokensResponse:
        everybody = not request.user and principal().role is Role.ADMIN
        user = "" if everybody else _somebody(request.user)
        return pb.ListTokensResponse(tokens=map(_token, await self._tokens.of(user)))

    async def Revoke(
        self, request: pb.RevokeTokenRequest, context: Context
    ) -> pb.RevokeTokenResponse:
        mine = "" if principal().role is Role.ADMIN else principal().name
        await self._tokens.revoke_named(named("id", request.id), mine)
        self._gate.forget()
        return pb.RevokeTokenResponse()


def _certificate(session: Session) -> store_tokens.Certificate | None:
    """The certificate that says who calls, if one does."""
    if not session.certified or session.expires is None:
        return None
    return store_tokens.Certificate(session.made_with, session.expires)


def _wanted(request: pb.AddUserRequest) -> Principal:
    """Who is to be added. Invalid names everything that is wrong with them."""
    violations = access.misnamed(request.name)
    role = SAID.get(request.role)
    if role is None:
        violations.append(Violation(field="role", description="must be one of the roles"))
    if (role is Role.DEVELOPER) != bool(request.developer):
        said = "must be given for the role developer, and for no other"
        violations.append(Violation(field="developer", description=said))
    if request.password:
        violations += weak(request.password, request.name)
    if len(request.developer) > NAME_LENGTH or not request.developer.isprintable():
        violations.append(Violation(field="developer", description="cannot be a name"))
    if violations or role is None:
        said = "; ".join(f"{each.field} {each.description}" for each in violations)
        raise Invalid(said, violations=violations)
    return Principal(
        name=request.name, role=role, tenant=principal().tenant, developer=request.developer
    )


def _somebody(name: str) -> str:
    """Whom a request is about: the caller, unless an administrator names another."""
    who = principal()
    if not name and who == access.ANYONE:
        raise Unauthenticated(
            "nobody is signed in whose this could be", reason="NO_TOKEN", do="name a user"
        )
    if name and name != who.name and who.role is not Role.ADMIN:
        raise Forbidden(
            f"{who.name} may do this for nobody else", subject=who.name, do="ask an administrator"
        )
    return named("user", name) if name else who.name


def _bound(cloudlets: Sequence[str]) -> list[str]:
    """Of which cloudlets a new token may speak. Nobody gives away more than they have."""
    own, any_of_them = running().session, access.ANY in cloudlets
    some = [each for each in cloudlets if each != access.ANY]
    if len(some) > MOST_CLOUDLETS or not all(map(access.CLOUDLET.fullmatch, some)):
        said = f"must be OPERATOR/NAME, and at most {MOST_CLOUDLETS}, or {access.ANY}"
        raise wrong("cloudlets", said)
    if not all(map(own.speaks_of, cloudlets)):
        only = f"of {', '.join(own.cloudlets)} alone" if own.cloudlets else "of no cloudlet"
        raise Forbidden(
            f"{own.principal.name} may speak {only} with this token",
            subject=own.principal.name,
            do="sign in, or ask an administrator",
        )
    inherited = [each for each in own.cloudlets if each != access.ANY]  # which has to be said
    return [access.ANY] if any_of_them else sorted(set(some or inherited))


def _bound_nodes(nodes: Sequence[str]) -> list[str]:
    """For which nodes a new token may speak. Nobody gives away more than they have."""
    session = running().session
    own = session.node_scope
    if len(nodes) > MOST_NODES or not all(map(is_scope, nodes)):
        said = f"must be NODE or PREFIX*, with @POOL if wanted, and at most {MOST_NODES}, or any"
        raise wrong("nodes", said)
    if not all(covers(own, each) for each in nodes):
        only = f"for {', '.join(own.names)} alone" if own.names else "for no node"
        raise Forbidden(
            f"{session.principal.name} may speak {only} with this token",
            subject=session.principal.name,
            do="sign in, or ask an administrator",
        )
    return sorted(set(nodes or session.nodes))


def _user(user: User) -> pb.User:
    who = user.principal
    return pb.User(
        name=who.name,
        role=ROLES[who.role],
        developer=who.developer,
        disabled=user.disabled,
        created=_moment(user.created),
    )


def _token(info: TokenInfo) -> pb.Token:
    return pb.Token(
        id=info.id,
        user=info.user,
        label=info.label,
        created=_moment(info.created),
        expires=_moment(info.expires),
        used=_moment(info.used),
        source=info.source,
        cloudlets=info.cloudlets,
        nodes=info.nodes,
    )


def _moment(time: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp
