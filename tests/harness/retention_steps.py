"""Steps of transcripts about retention and full disks."""

from harness.broker import EngineDriver


class RetentionSteps:
    driver: EngineDriver

    def do_expire(self, _: list[str], __: dict[str, str]) -> list[str]:
        """A round of retention."""
        return [f"{self.driver.retain()} files deleted"]

    def do_folders(self, _: list[str], __: dict[str, str]) -> list[str]:
        """Queues of users that are on disk."""
        self.driver.run(self.driver.broker.state.runtime.store.checkpoint())
        root = self.driver.data_dir / "consumequeue"
        found = sorted(path.relative_to(root) for path in root.glob("*/*") if any(path.iterdir()))
        return [f"queue {path}" for path in found if not path.parts[0].startswith("rmq_sys_")]

    def do_disk(self, arguments: list[str], _: dict[str, str]) -> list[str]:
        self.driver.fill_disk(int(arguments[0].rstrip("%")))
        return []
