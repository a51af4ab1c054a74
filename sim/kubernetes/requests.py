"""The HTTP side of one cluster's objects: paths and verbs in, JSON and tables out."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from aiohttp import web

from domain.frozen import Frozen
from sim.kubernetes import errors, protobuf
from sim.kubernetes.errors import Body
from sim.kubernetes.exec import executed
from sim.kubernetes.kinds import Kind, named
from sim.kubernetes.objects import APPLY, Objects, Options
from sim.kubernetes.selectors import Test, selected
from sim.kubernetes.tables import table
from sim.kubernetes.view import key
from sim.kubernetes.watch import Asked, event_line, watched
from sim.pace import Clock

JSON_PATCH = "application/json-patch+json"
YAML = frozenset({"application/yaml", APPLY})
_SINGLE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PLURAL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


class Target(Frozen):
    """What a path is about."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    part: str = ""

    @classmethod
    def of(cls, path: str) -> "Target":
        group, namespace = "", ""
        match path.strip("/").split("/"):
            case ["api", version, *rest]:
                pass
            case ["apis", group, version, *rest]:
                pass
            case _:
                raise errors.no_such_path()
        match rest:
            case ["namespaces", _, plural, *more] if plural != "status":
                namespace = rest[1]
            case [plural, *more]:
                pass
            case _:
                raise errors.no_such_path()
        kind = named(group, version, plural)
        name, part, *beyond = [*more, "", ""]
        if kind is None or any(beyond) or (part and not kind.has(part)):
            raise errors.no_such_path()
        return cls(kind=kind, namespace=namespace, name=name, part=part)

    def verb(self, method: str, *, watching: bool) -> str:
        """The word that access rules have for a request, empty if there is none."""
        if method == "POST" and self.part in ("eviction", "exec"):
            return "create"
        if self.part == "eviction":
            return ""
        if method == "GET" and watching:
            return "watch"
        return (_SINGLE if self.name else _PLURAL).get(method, "")


class User(Frozen):
    """Who asks, by their certificate."""

    name: str
    groups: tuple[str, ...] = ()


class Requests:
    """Answers what is asked of one cluster's objects."""

    def __init__(self, objects: Objects, clock: Clock, alive: Callable[[], bool]) -> None:
        self.objects, self._clock, self._alive = objects, clock, alive

    async def answer(
        self, request: web.BaseRequest, target: Target, user: User
    ) -> web.StreamResponse:
        """Carry one out. What cannot be is a StatusError."""
        kind, query = target.kind, dict(request.query)
        verb = target.verb(request.method, watching=query.get("watch") in ("true", "1"))
        if target.part == "eviction" and verb:
            return self._evicted(target, query, await _document(request))
        if target.part == "exec":
            pod = self.objects.get(kind, target.namespace, target.name)
            return await executed(request, pod, self._clock)
        if verb not in kind.verbs:
            raise errors.not_allowed()
        if not kind.kept:
            return reply(_reviewed(kind, await _document(request), user), 201)
        match verb:
            case "get":
                body = self.objects.get(kind, target.namespace, target.name)
                return reply(self._shown(request, kind)(body))
            case "list":
                return self._listed(request, target, query)
            case "watch":
                return await self._streamed(request, target, query)
            case "delete" | "deletecollection":
                return self._deleted(target, query, await _document(request))
        return await self._written(request, target, query, verb)

    def _shown(self, request: web.BaseRequest, kind: Kind) -> Callable[[Body], Body]:
        if "as=Table" not in request.headers.get("Accept", ""):
            return lambda body: body
        now = self._clock.now()
        return lambda body: table(
            kind, [body], now, {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        )

    def _listed(
        self, request: web.BaseRequest, target: Target, query: dict[str, str]
    ) -> web.Response:
        bodies = list(filter(_wanted(target, query), self.objects.all(target.kind)))
        metadata: Body = {"resourceVersion": str(self.objects.history.version)}
        if token := query.get("continue"):
            after = _opened(token)
            bodies = [body for body in bodies if key(body) > after]
        limit = _limit(query)
        if limit and len(bodies) > limit:
            metadata["remainingItemCount"] = len(bodies) - limit
            bodies = bodies[:limit]
            metadata["continue"] = base64.urlsafe_b64encode(key(bodies[-1]).encode()).decode()
        if "as=Table" in request.headers.get("Accept", ""):
            return reply(table(target.kind, bodies, self._clock.now(), metadata))
        return reply(_list(target.kind, bodies, metadata))

    async def _streamed(
        self, request: web.BaseRequest, target: Target, query: dict[str, str]
    ) -> web.StreamResponse:
        asked, wanted = Asked.of(query), _wanted(target, query)
        if asked.version is not None:
            self.objects.history.check(asked.version)
        shown = self._shown(request, target.kind)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        lines = watched(self.objects, target.kind, asked, wanted, shown, self._alive)
        try:
            async for line in lines:
                await response.write(line)
        except errors.StatusError as error:
            await response.write(event_line("ERROR", error.status))
        await response.write_eof()
        return response

    async def _written(
        self, request: web.BaseRequest, target: Target, query: dict[str, str], verb: str
    ) -> web.Response:
        document, options = await _document(request), _options(query)
        kind, shown = target.kind, self._shown(request, target.kind)
        if verb == "create":
            return reply(shown(self.objects.create(kind, target.namespace, document, options)), 201)
        where = (kind, target.namespace, target.name)
        if verb == "update":
            return reply(shown(self.objects.replace(*where, document, options)))
        if request.content_type == APPLY:
            body, fresh = self.objects.apply(*where, document, options)
            return reply(shown(body), 201 if fresh else 200)
        body = self.objects.patch(*where, request.content_type, document, options)
        return reply(shown(body))

    def _deleted(self, target: Target, query: dict[str, str], asked: Body) -> web.Response:
        kind, dry_run = target.kind, _options(query, asked).dry_run
        if target.name:
            body = self.objects.delete(kind, target.namespace, target.name, asked, dry_run=dry_run)
            details = {"name": target.name, "kind": kind.plural, "uid": body["metadata"]["uid"]}
            return reply(_success(details | ({"group": kind.group} if kind.group else {})))
        bodies = list(filter(_wanted(target, query), self.objects.all(kind)))
        for body in bodies:
            namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
            if self.objects.find(kind, namespace, name):  # its owner may have taken it along
                self.objects.delete(kind, namespace, name, asked, dry_run=dry_run)
        return reply(_list(kind, bodies, {"resourceVersion": str(self.objects.history.version)}))

    def _evicted(self, target: Target, query: dict[str, str], asked: Body) -> web.Response:
        dry_run = _options(query, asked.get("deleteOptions") or {}).dry_run
        self.objects.evict(target.namespace, target.name, asked, dry_run=dry_run)
        return reply(_success({}), 201)


async def _document(request: web.BaseRequest) -> Any:
    """What a request says, an empty object if it says nothing."""
    content, form = await request.read(), request.content_type
    if not content:
        return {}
    if form == protobuf.MEDIA_TYPE:
        return protobuf.decoded(content)
    if form not in YAML and form != _UNSAID and not form.endswith("json"):
        raise errors.unsupported(form)
    try:
        document = yaml.safe_load(content) if form in YAML else json.loads(content)
    except (ValueError, yaml.YAMLError) as error:
        raise errors.malformed(f"the request's body cannot be read: {error}") from error
    if isinstance(document, dict) is (form == JSON_PATCH):
        raise errors.malformed("the request's body is not an object")
    return document


_UNSAID = "application/octet-stream"
"""What aiohttp takes a body for that comes without a type."""


def _options(query: dict[str, str], asked: Body | None = None) -> Options:
    return Options(
        manager=query.get("fieldManager", ""),
        force=query.get("force") in ("true", "1"),
        dry_run="All" in (query.get("dryRun"), *((asked or {}).get("dryRun") or ())),
    )


def _wanted(target: Target, query: dict[str, str]) -> Test:
    fits = selected(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    if not target.namespace:
        return fits
    return lambda body: body["metadata"].get("namespace") == target.namespace and fits(body)


def _limit(query: dict[str, str]) -> int:
    limit = query.get("limit") or "0"
    if not limit.isdecimal():
        raise errors.malformed(f"invalid limit: {limit!r}")
    return int(limit)


def _opened(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise errors.malformed("continue key is not valid") from error


def _list(kind: Kind, bodies: list[Body], metadata: Body) -> Body:
    shared = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
    return shared | {"metadata": metadata, "items": bodies}


def _reviewed(kind: Kind, asked: Body, user: User) -> Body:
    """What a user may do, which is everything: the others were turned away before."""
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    status: Body = {"allowed": True}
    if kind.kind == "SelfSubjectReview":
        status = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    elif kind.kind == "SelfSubjectRulesReview":
        rules = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        status = {"incomplete": False, "resourceRules": [anything], "nonResourceRules": rules}
    return asked | {"kind": kind.kind, "apiVersion": kind.api_version, "status": status}


def _success(details: Body) -> Body:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | ({"details": details} if details else {})


def reply(body: Body, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """JSON, and no character set behind its type: clients compare it to the letter."""
    content = json.dumps(body).encode()
    told = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=content, status=status, headers=told)
