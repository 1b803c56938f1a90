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
