"""A cluster that asks who its clients are, and whether they may; its users, and what it refused."""

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from harness.access import signature
from harness.processes import Server, cluster, free_port

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_proxy.core.access.decide import decide
from popmq_proxy.core.access.model import Acl, Entry, Need, User
from popmq_proxy.core.access.signature import DATE_FORM

OPERATOR, OPERATORS_SECRET = "operator", "a secret of the operator"
SECRET = "a secret of the user"
HERE = "127.0.0.1"
TIMEOUT_S = 20
START_S = 30
REFUSED_METRIC = "popmq_access_refused_total"


class GuardedCluster:
    def __init__(self, server: Server, metrics_ports: list[int]) -> None:
        self.server = server
        self._metrics_ports = metrics_ports
        self._channels = [
            grpc.insecure_channel(end) for end in (server.endpoint, server.other_endpoint)
        ]

    def ask(self, name: str, request: Any, *, proxy: int = 0) -> Any:
        """An RPC of the admin service, as its Super user."""
        now = datetime.now(UTC).strftime(DATE_FORM).encode()
        authorization, date = signature(OPERATOR, OPERATORS_SECRET, now)
        signed = [("authorization", authorization.decode()), ("x-mq-date-time", date.decode())]
        call = getattr(admin_grpc.AdminStub(self._channels[proxy]), name)
        return call(request, metadata=signed, timeout=TIMEOUT_S, wait_for_ready=True)

    def wait_until_governed(self) -> None:
        """Until the operator has been made, and each proxy knows it."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self.settle()
            except grpc.RpcError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def topic(self, name: str, kind: str = "NORMAL") -> None:
        made = admin.Topic(name=name, queues=4, message_type=kind)
        self.ask("CreateTopic", admin.CreateTopicRequest(topic=made))

    def group(self, name: str) -> None:
        """With authorization nothing is made on first use."""
        self.ask("CreateGroup", admin.CreateGroupRequest(group=admin.Group(name=name)))

    def user(self, name: str, *entries: str) -> None:
        self.ask("CreateUser", admin.CreateUserRequest(username=name, secret=SECRET))
        self.allow(name, *entries)
        self.settle()

    def allow(self, name: str, *entries: str) -> None:
        """`entries`: "Topic:orders Pub,Sub", "Topic:secret* All Deny"."""
        if entries:
            put = [_entry(text) for text in entries]
            self.ask("PutAcl", admin.PutAclRequest(subject=f"User:{name}", entries=put))

    def revoke(self, name: str, resource: str = "") -> None:
        """No resource: everything."""
        gone = admin.DeleteAclRequest(subject=f"User:{name}", resource=resource)
        self.ask("DeleteAcl", gone)

    def only(self, name: str, *entries: str) -> None:
        """These, and none of those before."""
        try:
            self.revoke(name)
        except grpc.RpcError as refused:
            if refused.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        self.allow(name, *entries)
        self.settle()

    def settle(self) -> None:
        """Until each proxy has the newest table; by itself it asks once a second."""
        for proxy in range(len(self._channels)):
            self.ask("ListUsers", admin.ListUsersRequest(), proxy=proxy)

    def refused(self) -> int:
        """Requests that the proxies have refused."""
        return sum(self._refused_by(port) for port in self._metrics_ports)

    def _refused_by(self, port: int) -> int:
        with urllib.request.urlopen(f"http://{HERE}:{port}/metrics", timeout=TIMEOUT_S) as page:
            lines = page.read().decode().splitlines()
        return sum(
            int(float(line.split()[-1])) for line in lines if line.startswith(REFUSED_METRIC)
        )


def _entry(text: str) -> admin.AclEntry:
    resource, actions, decision = [*text.split(), "Allow"][:3]
    return admin.AclEntry(resource=resource, actions=actions.split(","), decision=decision)


def allowed(name: str, entries: Sequence[str], *needs: Need) -> bool:
    """By the decision model: all that is needed."""
    made = [_entry(text) for text in entries]
    custom = tuple(Entry.of(one.resource, list(one.actions), one.decision, []) for one in made)
    acl = Acl(name, custom=custom) if custom else None
    return all(decide(User(name), acl, need, HERE).allowed for need in needs)


@contextmanager
def guarded_cluster(
    folder: Path, more: Mapping[str, str] | None = None
) -> Iterator[GuardedCluster]:
    """Two brokers, two proxies, authentication and authorization; `more` variables."""
    operator = folder / "operator.json"
    operator.touch(mode=0o600)
    operator.write_text(json.dumps({"username": OPERATOR, "password": OPERATORS_SECRET}))
    env = {
        "POPMQ_PROXY_AUTHENTICATION": "true",
        "POPMQ_PROXY_AUTHORIZATION": "true",
        "POPMQ_PROXY_INIT_USER_FILE": str(operator),
        "POPMQ_PROXY_SIGNATURE_WINDOW_MS": "60000",
        "POPMQ_PROXY_INVISIBLE_MS_MIN": "1000",
        **(more or {}),
    }
    ports = {f"proxy-{i + 1}": free_port() for i in range(2)}
    own = {name: {"POPMQ_PROXY_METRICS_PORT": str(port)} for name, port in ports.items()}
    with cluster(folder, env, own=own) as server:
        guarded = GuardedCluster(server, list(ports.values()))
        guarded.wait_until_governed()
        yield guarded
