"""Which settings differ between services, and which of them should not?"""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_readings.settings_view import SettingRow, chosen_rows, settings_view


def service(name: str, role: str = "broker", **settings: str) -> admin.ServiceSettings:
    told = [
        admin.Setting(
            name=f"POPMQ_{role.upper()}_{key}",
            value=value,
            source="default" if value == "d" else "environment",
        )
        for key, value in settings.items()
    ]
    return admin.ServiceSettings(role=role, name=name, settings=told)


def rows(*services: admin.ServiceSettings) -> dict[str, SettingRow]:
    return {row.name: row for row in settings_view(services).rows}


def test_a_value_that_differs_between_brokers_is_marked() -> None:
    found = rows(service("a", FLUSH="sync", INDEX="d"), service("b", FLUSH="async", INDEX="d"))
    assert found["POPMQ_BROKER_FLUSH"].differs
    assert not found["POPMQ_BROKER_INDEX"].differs
    alike = [(one.value, names) for one, names in found["POPMQ_BROKER_FLUSH"].alike]
    assert alike == [("sync", ["a"]), ("async", ["b"])]


def test_names_and_ports_differ_by_their_nature() -> None:
    found = rows(service("a", NAME="a", TLS_PORT="1"), service("b", NAME="b", TLS_PORT="2"))
    assert not any(row.differs for row in found.values())


def test_a_proxy_is_not_compared_with_a_broker() -> None:
    found = rows(service("a", LOG_LEVEL="info"), service("p", "proxy", LOG_LEVEL="debug"))
    assert not any(row.differs for row in found.values())


def test_a_setting_that_one_broker_does_not_know_differs() -> None:
    """It is of another version."""
    found = rows(service("a", NEW="d"), service("b", FLUSH="d"))
    assert found["POPMQ_BROKER_NEW"].differs


def test_a_broker_that_does_not_answer_makes_nothing_differ() -> None:
    away = admin.ServiceSettings(role="broker", name="b", failure="it is down")
    view = settings_view([service("a", FLUSH="d"), away])
    assert not any(row.differs for row in view.rows)
    assert view.failures == [("b", "it is down")]


def test_rows_are_found_by_name_value_change_and_difference() -> None:
    view = settings_view(
        [service("a", FLUSH="sync", INDEX="d", NAME="a"), service("b", FLUSH="d", INDEX="d")]
    )

    def names(text: str = "", **only: bool) -> list[str]:
        found = chosen_rows(view.rows, text, **only)
        return [row.name.removeprefix("POPMQ_BROKER_") for row in found]

    assert names() == ["FLUSH", "INDEX", "NAME"]
    assert names("SYNC") == ["FLUSH"]
    assert names("inDex") == ["INDEX"]
    assert names(changed=True) == ["FLUSH", "NAME"]
    assert names(differing=True) == ["FLUSH"]
    assert names("x_y") == []
