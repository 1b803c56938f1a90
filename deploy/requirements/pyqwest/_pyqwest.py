"""What pyvoy takes from pyqwest's library itself."""


def get_sync_timeout() -> None:
    """No call is under way that could have one."""
