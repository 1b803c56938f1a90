"""How systems under test are started."""

import json
from pathlib import Path

from compare.servers import OPERATOR, USER, Popmq, Tools, server_for
from compare.systems import Case

TOOLS = Tools(Path("popmq"), Path("compiled/popmq"), Path("loadgen"), Path("anchor"), None)


def made(system: str, folder: Path) -> Popmq:
    found = server_for(Case(system, "sync"), TOOLS, folder, 0)
    assert isinstance(found, Popmq)
    return found


def test_a_signed_system_knows_users_and_its_load_signs(tmp_path: Path) -> None:
    for system in ("popmq-signed", "popmq-signed-compiled"):
        server = made(system, tmp_path)
        environment = server.environment()
        user_file = Path(environment["POPMQ_PROXY_INIT_USER_FILE"])
        secret = json.loads(user_file.read_text())
        assert secret["username"] == OPERATOR
        assert user_file.stat().st_mode & 0o777 == 0o600
        assert environment["POPMQ_PROXY_AUTHORIZATION"] == "true"
        assert server.user == USER
        assert server.client_environment()["LOADGEN_SECRET"]
    assert made("popmq-signed-compiled", tmp_path).tools.popmq == TOOLS.compiled


def test_others_ask_for_no_user(tmp_path: Path) -> None:
    server = made("popmq", tmp_path)
    assert "POPMQ_PROXY_AUTHENTICATION" not in server.environment()
    assert server.user == ""


def test_replicas_share_a_name_and_nothing_else(tmp_path: Path) -> None:
    server = made("popmq-replicated", tmp_path)
    commands = {name: port for name, port, _ in server.commands()}
    brokers = [name for name in commands if name.startswith("broker")]
    own = [server.own(name) for name in brokers]
    assert [one["POPMQ_BROKER_REPLICA"] for one in own] == brokers
    assert len({one["POPMQ_BROKER_REGISTER"] for one in own}) == 1
    assert len({commands[name] for name in brokers}) == 3
    assert len({one["POPMQ_BROKER_DATA_DIR"] for one in own[1:]}) == 2
    assert made("popmq", tmp_path).own("broker") == {}
