"""Open queue files: thousands of queues share a bounded number of descriptors."""

from collections import OrderedDict
from pathlib import Path

from popmq_broker.store.files.files import File, Files


class OpenFiles:
    """The least recently used file is closed when there are more than `limit`."""

    def __init__(self, files: Files, limit: int) -> None:
        assert limit > 0
        self.disk = files
        self._limit = limit
        self._open: OrderedDict[Path, File] = OrderedDict()

    def get(self, path: Path, *, size_bytes: int | None = None) -> File:
        """With a size the file is made if it does not exist. Raises `OSError`."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        file = self._open[path] = self.disk.open(path, size_bytes=size_bytes)
        if len(self._open) > self._limit:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return file

    def remove(self, path: Path) -> None:
        self.forget(path)
        self.disk.remove(path)

    def forget(self, path: Path) -> None:
        """Closed, if it was open."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        while self._open:
            _, file = self._open.popitem()
            file.close()
