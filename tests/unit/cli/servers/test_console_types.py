"""What does popmq console say of types that it cannot use?"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from popmq_cli.main import main


@pytest.mark.parametrize("given", ["descriptors", "topic-type"])
def test_descriptors_and_topic_types_belong_together(tmp_path: Path, given: str) -> None:
    file = tmp_path / "types.pb"
    file.write_bytes(b"x")
    options = {"descriptors": str(file), "topic-type": "t=a.B"}
    done = CliRunner().invoke(main, ["console", "--port", "0", f"--{given}", options[given]])
    assert done.exit_code == 2
    assert "--descriptors and --topic-type belong together" in done.output


def test_a_file_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "types.pb"
    file.write_bytes(b"\xff")
    options = ["--descriptors", str(file), "--topic-type", "t=a.B"]
    done = CliRunner().invoke(main, ["console", "--port", "0", *options])
    assert done.exit_code == 1
    assert "write one with protoc --include_imports" in done.output
