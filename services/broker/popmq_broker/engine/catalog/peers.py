"""The other brokers of the cluster, known by name and by the identity of their data directories.

A broker that comes back with another identity has lost its disk, or another one is mounted: what
only it held is gone, and by itself it cannot know. Its peers do, from their logs; and nameservers,
which tell it when it registers, as long as they run. All of them tell until that is accepted.
"""

import json
from typing import Final

from popmq_broker.core.catalog.catalog import CatalogKind, Change
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Store
from popmq_common.errors import BadRequest, Corrupt
from popmq_internal.v1 import link_pb2 as link

IDENTITY_FILE: Final = "identity.json"
PEERS_MAX: Final = 1_000


class Peers:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, catalog: Catalog) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._catalog = catalog
        self.replaced: dict[str, str] = {}
        """Brokers whose identity is not the one that is remembered, and what it is now. This one
        is among them when a nameserver remembers it with another one."""

    async def tell(self, request: link.Peers) -> link.PeersReply:
        """New ones are remembered, on disk when this returns. Raises `BadRequest`, `DiskFull`."""
        runtime, catalog_state = self._runtime, self._catalog_state
        if len(request.peers) > PEERS_MAX:
            raise BadRequest(reason=f"{len(request.peers)} brokers, at most {PEERS_MAX} are known")
        claimed = {
            peer.name: peer.identity
            for peer in request.peers
            if peer.identity and peer.name != runtime.config.name
        }
        new = [
            Change(CatalogKind.PEER, name, identity)
            for name, identity in sorted(claimed.items())
            if name not in catalog_state.peers and len(catalog_state.peers) < PEERS_MAX
        ]
        if new:
            self._catalog.change(*new)
        for name, identity in claimed.items():
            self._compare(name, identity)
        await runtime.store.durable(runtime.store.log_end)
        return link.PeersReply(replaced=sorted(self.replaced))

    def remembered_as(self, identity: str) -> None:
        """A nameserver knows this broker's name with another identity."""
        runtime, catalog_state = self._runtime, self._catalog_state
        name, own = runtime.config.name, catalog_state.identity
        if catalog_state.peers.get(name) != own and self.replaced.get(name) != own:
            self.replaced[name] = own
            means = "what lay in the data directory of before is not here"
            runtime.log.error("broker.replaced", identity=own, before=identity, means=means)

    def _compare(self, name: str, identity: str) -> None:
        if self._catalog_state.peers.get(name, identity) == identity:
            self.replaced.pop(name, None)
        elif self.replaced.get(name) != identity:
            self.replaced[name] = identity
            means = "it lost its disk, or another one is mounted"
            self._runtime.log.error("peer.replaced", peer=name, identity=identity, means=means)

    async def accept(self, request: link.AcceptPeer) -> link.Done:
        """It is the one that it says it is now. Raises `DiskFull`."""
        runtime = self._runtime
        peer = request.peer
        known = self._catalog_state.peers.get(peer.name)
        is_remembered = known is not None or peer.name == runtime.config.name
        if is_remembered and known != peer.identity:
            self._catalog.change(Change(CatalogKind.PEER, peer.name, peer.identity))
        if self.replaced.get(peer.name) == peer.identity:
            del self.replaced[peer.name]
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()


async def identify(store: Store, fresh: str) -> tuple[str, bool]:
    """(the data directory's identity, whether it was made now). `fresh`: for one that has none.

    Raises `Corrupt`, `DiskFull`.
    """
    known = store.load_config(IDENTITY_FILE, _decode)
    if known is not None:
        return known, False
    await store.save_config(IDENTITY_FILE, json.dumps({"identity": fresh}))
    return fresh, True


def _decode(text: str) -> str:
    try:
        return str(json.loads(text)["identity"])
    except (KeyError, TypeError, ValueError) as wrong:
        raise Corrupt(path=IDENTITY_FILE, offset=0, reason=f"no identity: {wrong!r}") from wrong
