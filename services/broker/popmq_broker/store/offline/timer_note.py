"""RocketMQ's note of what waits for its time: its files in a data directory.

The old note goes first and `timercheck` comes last: without that RocketMQ believes nothing.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from popmq_broker.core.timers import rocketmq_timer
from popmq_broker.core.timers.rocketmq_timer import Waiting
from popmq_broker.store.files.files import OsFiles

LOG_FOLDER = "timerlog"
CHECK_FILE = f"config/{rocketmq_timer.CHECK_NAME}"
WHEEL_FILE = "timerwheel"
NAME_DIGITS = 20


def remove_note(files: OsFiles, data_dir: Path) -> int:
    """Returns the size in bytes of the files of the log that the next note is written in."""
    file_bytes = _file_bytes(files, data_dir / LOG_FOLDER)
    _remove(files, data_dir)
    return file_bytes


def write_note(
    files: OsFiles,
    data_dir: Path,
    waiting: Sequence[Waiting],
    last: Waiting,
    *,
    now_ms: int,
    end: int,
    file_bytes: int,
) -> None:
    """`end`: of the timer topic's queue, up to where it was looked through."""
    folder = data_dir / LOG_FOLDER
    files.make_folder(folder)
    contents = rocketmq_timer.timer_log(waiting, last, now_ms, file_bytes)
    for i, content in enumerate(contents):
        file = files.open(folder / f"{i * file_bytes:0{NAME_DIGITS}}", size_bytes=file_bytes)
        file.pwrite(content, 0)
        file.fdatasync()
        file.close()
    files.sync_folder(folder)
    log_bytes = (len(contents) - 1) * file_bytes + len(contents[-1])
    files.replace(data_dir / CHECK_FILE, rocketmq_timer.timer_check(now_ms, log_bytes, end))


def _file_bytes(files: OsFiles, folder: Path) -> int:
    """RocketMQ refuses to start on a file of another size than it is set to."""
    sizes = [files.size(folder / name) for name in files.names(folder)]
    return max(sizes, default=rocketmq_timer.FILE_BYTES)


def _remove(files: OsFiles, data_dir: Path) -> None:
    files.remove(data_dir / CHECK_FILE)
    files.sync_folder(data_dir / "config")
    files.remove(data_dir / WHEEL_FILE)
    shutil.rmtree(data_dir / LOG_FOLDER, ignore_errors=True)
    files.sync_folder(data_dir)
