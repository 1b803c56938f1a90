"""A seal over a manifest: whoever has the operator's key can tell that nobody else has changed it.

    manifest.seal     HMAC-SHA256 of the bytes of manifest.json, in hex

The manifest has the hash of each file and of the manifest before it, so the seal of the last one
covers the whole chain. The key is a file of at least `KEY_BYTES_MIN` bytes, which the variable
POPMQ_SNAPSHOT_KEY_FILE names, for who writes snapshots and for who audits them. Without a key no
seal is written, and none is asked for.
"""

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SEAL: Final = "manifest.seal"
KEY_FILE: Final = "POPMQ_SNAPSHOT_KEY_FILE"
KEY_BYTES_MIN: Final = 16


class BadKey(Exception):
    """The key of snapshots cannot be used; the text says why."""


def key_of(environ: Mapping[str, str]) -> bytes | None:
    """None: no key is named. Raises `BadKey`."""
    name = environ.get(KEY_FILE, "")
    if not name:
        return None
    try:
        key = Path(name).read_bytes().strip()
    except OSError as wrong:
        raise BadKey(f"{KEY_FILE}: {wrong}") from wrong
    if len(key) < KEY_BYTES_MIN:
        raise BadKey(
            f"{KEY_FILE}: {name} has {len(key)} bytes, at least {KEY_BYTES_MIN} are needed"
        )
    return key


def seal(manifest: bytes, key: bytes) -> str:
    return hmac.new(key, manifest, "sha256").hexdigest()


def problems(folder: Path, manifest: bytes, key: bytes | None) -> list[str]:
    """Why the manifest of `folder` is not sealed with the key; empty: it is, or there is none."""
    try:
        found = (folder / SEAL).read_bytes()
    except FileNotFoundError:
        found = None
    return judge(found, manifest, key)


def judge(found: bytes | None, manifest: bytes, key: bytes | None) -> list[str]:
    """The same of a seal that was read; `found` None: there is none."""
    if key is None:
        return []
    if found is None:
        return [f"{SEAL} is missing: the snapshot was written without the key"]
    if not hmac.compare_digest(found.strip(), seal(manifest, key).encode()):
        return [f"{SEAL} is not of this manifest and this key"]
    return []
