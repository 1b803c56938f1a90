"""Topics and groups as clients name them → as brokers store them.

A namespace comes in the resource or, from clients that leave it out there, in the metadata. It
becomes part of the stored name, `namespace%name`, as in RocketMQ; without one the name stays as
it is; of a group's retry topic and dead letters it stands behind their prefix. Answers carry the
resource as it came.

Source: RocketMQ NamespaceUtil.
"""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX


def stored_name(resource: v2.Resource, header_namespace: str) -> str:
    namespace, name = resource.resource_namespace or header_namespace, resource.name
    if not namespace:
        return name
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return f"{prefix}{namespace}%{name.removeprefix(prefix)}"
    return f"{namespace}%{name}"


def in_namespace(stored: str, namespace: str) -> v2.Resource:
    """A stored name as a client of that namespace names it."""
    if namespace and stored.startswith(f"{namespace}%"):
        name = stored.removeprefix(f"{namespace}%")
        return v2.Resource(resource_namespace=namespace, name=name)
    return v2.Resource(name=stored)
