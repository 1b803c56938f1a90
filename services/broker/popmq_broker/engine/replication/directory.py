"""What a replica keeps beside its log: its epochs, and the id of its directory.

    config/epochs.json    which epoch begins where, and the highest one promised
    config/replica.json   {"incarnation": "…"}: another one after the directory was emptied

Both are its own: they are neither sent to other replicas nor taken of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from popmq_broker.core.replication import epochs as format_
from popmq_broker.core.replication.epochs import EPOCHS_FILE, Epochs
from popmq_broker.core.store.damage import DAMAGE_FILE
from popmq_broker.engine.catalog.peers import IDENTITY_FILE
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE
from popmq_broker.store.recovery.cut_tail import begin_anew
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log

REPLICA_FILE: Final = "replica.json"
OWN_FILES: Final = frozenset({EPOCHS_FILE, REPLICA_FILE, QUEUE_ENDS_FILE, DAMAGE_FILE})


class ReplicaDirectory:
    def __init__(self, files: Files, config: StoreConfig, log: Log, fresh: str) -> None:
        """`fresh`: the incarnation of a directory that has none. Raises `Corrupt`, `OSError`."""
        self._files = files
        self._config = config
        self._log = log
        self._folder = config.data_dir / "config"
        self._own = ConfigFiles(files, self._folder, log)
        self.epochs = self._own.load(EPOCHS_FILE, format_.decode) or Epochs()
        incarnation = self._own.load(REPLICA_FILE, _decode)
        self.incarnation = incarnation or self._begin(fresh)

    def identity(self) -> str:
        """Of the data; empty: there is none."""
        return self._own.load(IDENTITY_FILE, lambda text: str(json.loads(text)["identity"])) or ""

    def _begin(self, incarnation: str) -> str:
        self._own.begin_anew(REPLICA_FILE, json.dumps({"incarnation": incarnation}))
        return incarnation

    async def save(self, epochs: Epochs) -> None:
        """On disk when it returns. Raises `DiskFull`."""
        if epochs != self.epochs:
            await self._own.save(EPOCHS_FILE, format_.encode(epochs))
            self.epochs = epochs

    async def take_identity(self, identity: str) -> None:
        """Of the primary's data. Raises `DiskFull`."""
        if self.identity() != identity:
            await self._own.save(IDENTITY_FILE, json.dumps({"identity": identity}))

    def empty(self, start: int, fresh: str) -> None:
        """All data goes; the log begins at `start`. It is another directory from now on."""
        self.incarnation = self._begin(fresh)
        begin_anew(self._files, self._config, start, frozenset({EPOCHS_FILE, REPLICA_FILE}))
        self.epochs = Epochs(self.epochs.promised)
        self._own.begin_anew(EPOCHS_FILE, format_.encode(self.epochs))

    def shared_files(self, since_ns: int) -> Iterator[tuple[str, int, bytes]]:
        """(name, when it was written in ns, content) of the files that changed after `since_ns`,
        in the order in which they are to be written: catalog.json, which says up to where in the
        log the others go, is read first and comes last."""
        names = [name for name in self._files.names(self._folder) if self._is_shared(name)]
        last = []
        for name in sorted(names, key=lambda name: name != "catalog.json"):
            path = self._folder / name
            written_ns = path.stat().st_mtime_ns if path.exists() else 0
            data = self._files.read(path) if written_ns > since_ns else None
            if data and name == "catalog.json":
                last.append((name, written_ns, data))
            elif data:
                yield name, written_ns, data
        yield from last

    def _is_shared(self, name: str) -> bool:
        return name.endswith(".json") and name not in OWN_FILES

    def write(self, name: str, data: bytes) -> None:
        """A file of the primary's. Raises `DiskFull`, `Corrupt` for a name that is none."""
        if not self._is_shared(name) or Path(name).name != name:
            raise Corrupt(path=name, offset=0, reason="a replica may not write this file")
        self._files.replace(self._folder / name, data)


def _decode(text: str) -> str:
    try:
        return str(json.loads(text)["incarnation"])
    except (KeyError, TypeError, ValueError) as wrong:
        raise Corrupt(path=REPLICA_FILE, offset=0, reason=f"no incarnation: {wrong!r}") from wrong
