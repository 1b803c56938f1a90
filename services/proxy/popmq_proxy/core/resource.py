"""Topics and groups as clients name them → as brokers store them.

A namespace comes in the resource or, from clients that leave it out there, in the metadata. It
becomes part of the stored name, `namespace%name`, as in RocketMQ; without one the name stays as
it is. Answers carry the resource as it came.
"""

from apache.rocketmq.v2 import definition_pb2 as v2


def stored_name(resource: v2.Resource, header_namespace: str) -> str:
    namespace = resource.resource_namespace or header_namespace
    return f"{namespace}%{resource.name}" if namespace else resource.name
