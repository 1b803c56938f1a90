"""Does the register log in to an etcd that wants to know who asks, and say what is wrong if not?"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from harness.authority import Authority
from harness.certificates import Certified
from harness.etcd_register import unreachable, until_answered, url
from harness.etcd_server import EtcdMember, enable_users, etcd, grant, log_in
from harness.register_contract import EMPTY

from popmq_broker.clients.register.open_register import open_register
from popmq_broker.clients.register.register import Register, Seen
from popmq_common.errors import RegisterUnreachable

pytestmark = pytest.mark.etcd
PASSWORD = "a password of the register"
TOKEN_S = 2


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    with etcd(tmp_path_factory.mktemp("users")) as (member,):
        enable_users(member, "popmq", PASSWORD, "/popmq/c/")
        yield member


def password_file(folder: Path, password: str = PASSWORD) -> Path:
    path = folder / "password"
    path.touch(0o600)
    path.write_text(password + "\n")
    return path


async def test_a_user_logs_in(with_users: EtcdMember, tmp_path: Path) -> None:
    one = open_register(
        url([with_users]), "c", "b", user="popmq", password_file=password_file(tmp_path)
    )
    version = await one.swap(0, b"1")
    assert version
    await one.heartbeat("r1", 60)
    seen = await one.read()
    assert seen == Seen(b"1", version, frozenset({"r1"}))
    waiting = asyncio.ensure_future(one.wait(seen, 60))
    await asyncio.sleep(0.1)
    await one.leave("r1")
    assert (await waiting).alive == frozenset()
    await one.close()


@pytest.mark.parametrize(
    ("user", "password", "cluster", "reason"),
    [
        ("popmq", "wrong", "c", "authentication failed.*'popmq'.*password"),
        ("nobody", PASSWORD, "c", "authentication failed.*'nobody'"),
        ("popmq", PASSWORD, "other", "permission denied.*'popmq' readwrite on the prefix"),
        ("", "", "c", "user name is empty.*give one"),
    ],
)
async def test_who_may_not_is_told_why(
    with_users: EtcdMember, tmp_path: Path, user: str, password: str, cluster: str, reason: str
) -> None:
    path = password_file(tmp_path, password) if user else None
    one = open_register(url([with_users]), cluster, "b", user=user, password_file=path)
    for call in (one.read, lambda: one.swap(0, b"1"), lambda: one.wait(EMPTY, 60)):
        with pytest.raises(RegisterUnreachable, match=reason):
            await call()
    await one.close()


async def test_users_are_turned_on_later(tmp_path: Path) -> None:
    with etcd(tmp_path / "etcd") as (member,):
        path = password_file(tmp_path)
        one = open_register(url([member]), "c", "b", user="popmq", password_file=path)
        version = await one.swap(0, b"1")
        assert version
        enable_users(member, "popmq", PASSWORD, "/popmq/c/")
        assert await one.swap(version, b"2")
        member.kill()
        member.spawn()
        await until_answered(one.read)
        assert (await one.read()).value == b"2"
        await one.close()


def signing_keys(folder: Path) -> str:
    """The option for tokens that say themselves how long they are valid, and for which revision of
    the users."""
    key = rsa.generate_private_key(65_537, 2_048)
    private, public = folder / "tokens.key", folder / "tokens.pub"
    pem = serialization.Encoding.PEM
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(pem, pkcs8, plain))
    info = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem, info))
    return f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl={TOKEN_S}s"


async def test_a_token_that_has_run_out_is_replaced(tmp_path: Path) -> None:
    with etcd(tmp_path / "etcd", options=("--auth-token", signing_keys(tmp_path))) as (member,):
        enable_users(member, "popmq", PASSWORD, "/popmq/c/")
        path = password_file(tmp_path)
        one = open_register(url([member]), "c", "b", user="popmq", password_file=path)
        version = await one.swap(0, b"1")
        assert version
        seen = await one.read()
        waiting = asyncio.ensure_future(one.wait(seen, 60))
        await asyncio.sleep(TOKEN_S + 0.5)
        assert await one.swap(version, b"2")
        assert (await waiting).value == b"2"
        grant(member, "popmq", "/popmq/d/", log_in(member, "root", PASSWORD))
        assert (await one.read()).value == b"2"
        await one.close()


async def test_a_password_is_read_again(tmp_path: Path) -> None:
    with etcd(tmp_path / "etcd") as (member,):
        enable_users(member, "popmq", PASSWORD, "/popmq/c/")
        path = password_file(tmp_path)
        one = open_register(url([member]), "c", "b", user="popmq", password_file=path)
        await one.read()
        root = log_in(member, "root", PASSWORD)
        member.ask("/v3/auth/user/changepw", {"name": "popmq", "password": "new"}, root)
        assert "authentication failed" in await unreachable(one.read())
        path.write_text("new")
        assert await one.read() == EMPTY
        path.unlink()
        member.ask("/v3/auth/user/changepw", {"name": "popmq", "password": "newer"}, root)
        assert "cannot be read" in await unreachable(one.read())
        await one.close()


def opened(secure: str, trusted: Authority, own: Certified | None = None) -> Register:
    cert, key = own or (None, None)
    return open_register(secure, "c", "b", ca=trusted.pem, cert=cert, key=key)


async def test_tls_with_certificates_of_both_ends(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server, client = authority.signed("server"), authority.signed("client")
    with etcd(tmp_path / "etcd", tls=(authority.pem, server)) as members:
        secure = url(members, "etcds")
        one = opened(secure, authority, client)
        version = await one.swap(0, b"1")
        assert version
        await one.heartbeat("r1", 60)
        seen = await one.wait(EMPTY, 60)
        assert seen == Seen(b"1", version, frozenset({"r1"}))
        await one.close()
        wrong = stranger.signed("intruder")
        wants_another = "another certificate of this service"
        for reason, register in (
            ("did not sign its certificate", opened(secure, stranger)),
            (wants_another, opened(secure, authority)),
            (wants_another, opened(secure, authority, wrong)),
            ("if it speaks TLS", open_register(url(members), "c", "b")),
        ):
            assert reason in await unreachable(register.read())
            await register.close()


async def test_plaintext_where_tls_is_meant(with_users: EtcdMember, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one = open_register(url([with_users], "etcds"), "c", "b", ca=authority.pem)
    assert "or speak no TLS" in await unreachable(one.read())
    await one.close()
