"""The servers, once for all tests of this folder. They fail where nothing can run them."""

from collections.abc import AsyncIterator, Iterator

import pytest
from idempotence import servers
from idempotence.ledger import connect
from sqlalchemy.ext.asyncio import AsyncEngine


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with servers.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    with servers.mariadb() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with servers.redis_server() as url:
        yield url


@pytest.fixture(params=["postgres", "mariadb"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    connected = connect(request.getfixturevalue(f"{request.param}_url"))
    yield connected
    await connected.dispose()
