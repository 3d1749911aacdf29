"""The simulated API server: `with ApiServer() as api: api.url`. Knows nothing of schedulers, kubelets or scenarios."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType

import msgspec

from hami_platform.simulator import certificates
from hami_platform.simulator.api import (
    bodies,
    discovery,
    errors,
    faults,
    httpd,
    kinds,
    lists,
    paths,
    registry,
    render,
    rest,
    shape,
    subresources,
    webhooks,
)
from hami_platform.simulator.api import store as storage
from hami_platform.simulator.api.types import Obj, Request, Response, User

ADMIN = User("simulator-admin", groups=("system:masters", "system:authenticated"))
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_READS, _STATUS_SUBS = ("GET", "HEAD"), ("status", "finalize")


class ApiServer:
    """An API server on 127.0.0.1. Who sends no token is `simulator-admin`, unless `require_token`.

    `window` past events per resource are kept for watches that come back; `resolve` finds the process behind a
    webhook's Service; `tls` serves HTTPS with a CA of its own (`ca_pem`).
    """

    def __init__(
        self,
        port: int = 0,
        *,
        tls: bool = False,
        window: int = 4096,
        bookmark_s: float = 60.0,
        events_last_s: float = 3600.0,  # source: kube-apiserver, --event-ttl
        require_token: bool = False,
        resolve: webhooks.Resolver | None = None,
    ) -> None:
        self.store = storage.Store(window)
        self.tokens = subresources.Tokens()
        self.requests: Counter[tuple[str, str]] = Counter()
        self._authority = certificates.Authority() if tls else None
        self._require_token = require_token
        self._webhooks = webhooks.Webhooks(self.store, resolve)
        self._rest = rest.Rest(self.store, self._webhooks, events_last_s=events_last_s)
        self._lists = lists.Lists(self.store, bookmark_s=bookmark_s)
        self.fault = faults.Faults(self.store, self._lists)
        self._counting = threading.Lock()
        self._http = httpd.HttpServer(
            self._answer, port=port, tls=self._authority.server_context() if self._authority else None
        )
        for name in _NAMESPACES:
            self._found_namespace(name)

    def __enter__(self) -> ApiServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"{'https' if self._authority else 'http'}://{self._http.host}:{self._http.port}"

    @property
    def ca_pem(self) -> bytes | None:
        """The CA to trust; None on plain HTTP."""
        return self._authority.pem if self._authority else None

    def start(self) -> None:
        """Begin to serve."""
        self._http.start()

    def stop(self) -> None:
        """End watches and connections, and wait for their threads."""
        self.fault.cut_watches()
        self._http.stop()
        self._webhooks.close()

    def token(self, name: str, *groups: str) -> str:
        """A bearer token for a user."""
        return self.tokens.issue(User(name, groups=(*groups, "system:authenticated")))

    def kubeconfig(self, path: Path | str, *, token: str = "") -> Path:
        """Write a kubeconfig for this server and return its path."""
        cluster: Obj = {"server": self.url}
        if self.ca_pem:
            cluster["certificate-authority-data"] = base64.b64encode(self.ca_pem).decode()
        name = "simulated"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token} if token else {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        target = Path(path)
        target.touch(mode=0o600)
        target.write_text(json.dumps(config, indent=1))
        return target

    # --- requests -------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Response:
        try:
            request.user = self._authenticated(request)
            response = self.fault.around(request, self._carried_out)
        except errors.ApiError as failure:
            response = Response(failure.code, msgspec.json.encode(failure.status))
            retry_s = failure.status.get("details", {}).get("retryAfterSeconds")
            if retry_s:
                response.headers.append(("Retry-After", str(retry_s)))
        response.headers += [("Warning", f'299 - "{_quoted(text)}"') for text in request.warnings]
        return response

    def _authenticated(self, request: Request) -> User:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            user = self.tokens.user(token.strip())
            if user is None:
                raise errors.unauthorized()
        elif self._require_token:
            raise errors.unauthorized()
        else:
            user = ADMIN
        impersonated = request.headers.get("impersonate-user")
        if impersonated:
            groups = tuple(filter(None, request.headers.get("impersonate-group", "").split(",")))
            return User(impersonated, groups=(*groups, "system:authenticated"))
        return user

    def _carried_out(self, request: Request) -> Response:
        found = discovery.answer(request)
        if found is not None:
            return found
        target = paths.target(request.path)
        self._count(request, target)
        if request.method in _READS:
            return self._read(target, request)
        self._check_verb(target, request)
        outcome = self._written(target, request)
        return self._shown(target, request, outcome)

    def _count(self, request: Request, target: paths.Target) -> None:
        what = f"{target.resource.plural}/{target.sub}" if target.sub else target.resource.plural
        with self._counting:
            self.requests[(request.method, what)] += 1

    def _read(self, target: paths.Target, request: Request) -> Response:
        if "get" not in target.resource.verbs or (target.sub and target.sub not in _STATUS_SUBS):
            raise errors.method_not_allowed()
        if request.flag("watch"):
            return self._lists.watch(target, request)
        if not target.name:
            return self._lists.page(target, request)
        stored = self._rest.stored(target)
        shown = render.item(target.resource, stored.obj, stored.raw)
        return Response(body=render.single(target.resource, render.form_of(request), shown))

    def _check_verb(self, target: paths.Target, request: Request) -> None:
        creating = request.method == "POST"
        if creating and (bool(target.name) != bool(target.sub) or target.sub in _STATUS_SUBS):
            raise errors.method_not_allowed()
        if not creating and ((not target.name and request.method != "DELETE") or target.sub not in ("", *_STATUS_SUBS)):
            raise errors.method_not_allowed()
        if not creating and target.resource.verbs == ("create",):
            raise errors.method_not_allowed()
        if request.method == "DELETE" and target.sub:
            raise errors.method_not_allowed()

    def _written(self, target: paths.Target, request: Request) -> bodies.Outcome:
        if request.method == "PUT":
            return self._rest.update(target, request)
        if request.method == "PATCH":
            return self._rest.patch(target, request)
        if request.method == "DELETE":
            return (
                self._rest.removal.delete(target, request) if target.name else self._delete_collection(target, request)
            )
        if request.method == "POST":
            return self._posted(target, request)
        raise errors.method_not_allowed()

    def _posted(self, target: paths.Target, request: Request) -> bodies.Outcome:
        if target.sub == "binding":
            return bodies.Outcome(subresources.bind(self._rest, self.store, target, request), 201)
        if target.sub == "eviction":
            return bodies.Outcome(subresources.evict(self._rest, target, request), 201)
        if target.sub == "token":
            return bodies.Outcome(subresources.token_request(self.tokens, self._rest, target, request), 201)
        if target.resource.verbs == ("create",):
            return bodies.Outcome(subresources.review(self.tokens, target, request), 201)
        if target.resource is registry.EVENTS_V1:
            core = paths.Target(registry.EVENTS, target.namespace)
            return self._rest.create(core, request, render.event_core(bodies.decoded(request)))
        return self._rest.create(target, request)

    def _delete_collection(self, target: paths.Target, request: Request) -> bodies.Outcome:
        if "deletecollection" not in target.resource.verbs:
            raise errors.method_not_allowed()
        found = self._lists.matching(target, request)
        items = [{key: value for key, value in one.obj.items() if key not in ("kind", "apiVersion")} for one in found]
        revision = str(self.store.revision)
        for stored in found:
            self._rest.removal.delete(paths.Target(target.resource, *stored.key), request)
        resource = target.resource
        meta = {"resourceVersion": revision}
        answer = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": items}
        return bodies.Outcome(answer)

    def _shown(self, target: paths.Target, request: Request, outcome: bodies.Outcome) -> Response:
        obj = outcome.obj
        if obj.get("kind") != registry.stored(target.resource).kind:
            return Response(outcome.code, msgspec.json.encode(obj))
        shown = render.item(target.resource, obj)
        return Response(outcome.code, render.single(target.resource, render.form_of(request), shown))

    def _found_namespace(self, name: str) -> None:
        obj: Obj = {"metadata": {"name": name}}
        kinds.default(registry.NAMESPACES, obj)
        kinds.prepare_create(registry.NAMESPACES, obj)
        shape.new_metadata(registry.NAMESPACES, obj["metadata"], "")
        self.store.put(registry.NAMESPACES, ("", name), shape.ordered(registry.NAMESPACES, obj), expected=None)
        self._rest.furnish(name)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
