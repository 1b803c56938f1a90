"""popmq.admin.v1: users made, changed, deleted, listed; their keys replaced."""

import secrets
from dataclasses import replace
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import AccessDenied, IllegalUser
from popmq_proxy.core.access.model import (
    SECRET_CHARS_MIN,
    SECRETS_MAX,
    Secret,
    User,
    UserStatus,
    UserType,
    check_username,
    word,
)
from popmq_proxy.core.access.table import AccessTable
from popmq_proxy.rpc.access.access_tables import AccessTables, Edit
from popmq_proxy.rpc.shared.context import CallContext, Upstream

SECRET_BYTES: Final = 32
SECRET_CHARS_MAX: Final = 256
_STATUS: Final = {UserStatus.ENABLED: "ENABLED", UserStatus.DISABLED: "DISABLED"}


class UsersHandler:
    def __init__(self, upstream: Upstream, tables: AccessTables) -> None:
        self._upstream = upstream
        self._tables = tables

    async def create(
        self, ctx: CallContext, request: admin.CreateUserRequest
    ) -> admin.UserResponse:
        """Raises `IllegalUser`, `UserExists`, `AccessDenied`."""
        name = check_username(request.username)
        kind = word(UserType, request.type or UserType.NORMAL.value)
        if request.no_secret:
            keys: tuple[Secret, ...] = ()
        else:
            keys = (Secret(_secret(name, request.secret)),)
        user = User(name, kind, secrets=keys)
        self._may_touch(ctx, kind, None)
        made = "" if request.secret or not keys else keys[0].key
        return await self._changed(
            ctx, name, lambda table: table.with_user(user, only_new=True), made
        )

    async def update(
        self, ctx: CallContext, request: admin.UpdateUserRequest
    ) -> admin.UserResponse:
        """Raises `UserNotFound`, `LastSuperUser`, `IllegalUser`, `AccessDenied`."""
        kind = word(UserType, request.type) if request.type else None
        status = _status(request.status) if request.status else None
        keys = None
        if request.secret:
            keys = (Secret(_secret(request.username, request.secret)),)

        def edit(table: AccessTable) -> AccessTable:
            user = table.user(request.username)
            self._may_touch(ctx, kind, user)
            return table.with_user(
                replace(
                    user,
                    type=kind or user.type,
                    status=status or user.status,
                    secrets=user.secrets if keys is None else keys,
                )
            )

        return await self._changed(ctx, request.username, edit)

    async def rotate(
        self, ctx: CallContext, request: admin.RotateUserRequest
    ) -> admin.UserResponse:
        """Raises `UserNotFound`, `IllegalUser`, `AccessDenied`."""
        now_ms = self._upstream.clock.now_ms()
        until_ms = now_ms + request.old_valid_ms if request.old_valid_ms > 0 else 0
        key = "" if request.drop_old else _secret(request.username, request.secret)

        def edit(table: AccessTable) -> AccessTable:
            user = table.user(request.username)
            self._may_touch(ctx, None, user)
            valid = user.secrets_at(now_ms)
            if request.drop_old:
                return table.with_user(replace(user, secrets=valid[:1]))
            older = tuple(Secret(one.key, until_ms) for one in valid[: SECRETS_MAX - 1])
            return table.with_user(replace(user, secrets=(Secret(key), *older)))

        return await self._changed(ctx, request.username, edit, "" if request.secret else key)

    async def delete(
        self, ctx: CallContext, request: admin.DeleteUserRequest
    ) -> admin.DeleteUserResponse:
        """With all policies of the user. Raises `UserNotFound`, `LastSuperUser`, `AccessDenied`."""

        def edit(table: AccessTable) -> AccessTable:
            self._may_touch(ctx, None, table.user(request.username))
            return table.without_user(request.username)

        _, missing = await self._tables.change(edit)
        return admin.DeleteUserResponse(missing_brokers=missing)

    async def list_all(
        self, ctx: CallContext, request: admin.ListUsersRequest
    ) -> admin.ListUsersResponse:
        await self._tables.refresh()
        table, config = self._tables.current, self._upstream.config
        return admin.ListUsersResponse(
            users=[
                self._shown(user)
                for name, user in sorted(table.users.items())
                if request.filter in name
            ],
            authentication=config.authentication,
            authorization=config.authorization,
            missing_brokers=await self._tables.lacking(),
        )

    async def _changed(
        self,
        ctx: CallContext,
        name: str,
        edit: Edit,
        made: str = "",
    ) -> admin.UserResponse:
        table, missing = await self._tables.change(edit)
        shown = self._shown(table.user(name))
        return admin.UserResponse(user=shown, secret=made, missing_brokers=missing)

    def _shown(self, user: User) -> admin.User:
        """Without the keys themselves."""
        valid = user.secrets_at(self._upstream.clock.now_ms())
        return admin.User(
            username=user.username,
            type=user.type.name,
            status=_STATUS[user.status],
            secrets=len(valid),
            old_until_ms=valid[-1].until_ms if len(valid) > 1 else 0,
        )

    def _may_touch(self, ctx: CallContext, kind: UserType | None, user: User | None) -> None:
        """Only a Super user makes, changes or deletes one. Raises `AccessDenied`."""
        before = user.type if user else None
        if not self._upstream.config.authorization or UserType.SUPER not in (kind, before):
            return
        own = self._tables.current.users.get(ctx.user)
        if own is None or own.type is not UserType.SUPER:
            what = user.username if user else "a Super user"
            reason = "only a Super user makes, changes or deletes a Super user"
            raise AccessDenied(
                user=ctx.user, resource=f"User:{what}", address=ctx.address, reason=reason
            )


def _secret(user: str, given: str) -> str:
    """As it is given, or one that is made. Raises `IllegalUser`."""
    if not given:
        return secrets.token_urlsafe(SECRET_BYTES)
    if not SECRET_CHARS_MIN <= len(given) <= SECRET_CHARS_MAX:
        reason = f"a secret has {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} characters"
        raise IllegalUser(user=user, reason=reason)
    return given


def _status(text: str) -> UserStatus:
    """ENABLED or RocketMQ's `enable`. Raises `IllegalAccessEntry`."""
    named = {shown.lower(): status for status, shown in _STATUS.items()}
    return named.get(text.lower()) or word(UserStatus, text)
