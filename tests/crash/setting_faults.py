"""Faults that `test_settings.py` must find: the broker, changed in one place."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from popmq_broker.core.catalog.catalog import CATALOG_FILE, CatalogMarks, Change, encode_marks
from popmq_broker.engine.catalog import catalog
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.store.store import Store


@contextmanager
def the_marks_are_written_before_the_files() -> Iterator[None]:
    """So a start takes the files for newer than they are."""
    real = Catalog._save

    async def save(self: Catalog, kinds: Any) -> None:
        store, state = self._runtime.store, self._catalog_state
        marks = CatalogMarks(store.log_end, state.whole_from, state.epoch)
        await store.durable(store.log_end)
        await store.save_config(CATALOG_FILE, encode_marks(marks))
        await real(self, kinds)

    with patch.object(Catalog, "_save", save):
        yield


@contextmanager
def a_change_is_in_the_files_alone() -> Iterator[None]:
    """As before settings were in the log."""

    def change(self: Catalog, *changes: Change, **_: Any) -> None:
        for one in changes:
            self._catalog_state.unsaved.setdefault(one.kind, self._runtime.store.log_end)
            catalog.apply(self._catalog_state, one)

    with patch.object(Catalog, "change", change):
        yield


@contextmanager
def a_file_is_written_in_place() -> Iterator[None]:
    """Not as a whole."""

    async def save(self: Store, name: str, text: str) -> None:
        path = self.data_dir / "config" / name
        path.write_text(text[: len(text) // 2])
        await real(self, name, text)

    real = Store.save_config
    with patch.object(Store, "save_config", save):
        yield


FAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    plant.__name__: plant
    for plant in (
        the_marks_are_written_before_the_files,
        a_change_is_in_the_files_alone,
        a_file_is_written_in_place,
    )
}
