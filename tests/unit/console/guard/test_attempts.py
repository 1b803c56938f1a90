"""How often can somebody guess?"""

from popmq_console.guard.attempts import (
    ADDRESS_MAX,
    KEYS_MAX,
    TOGETHER_MAX,
    USER_MAX,
    WINDOW_MS,
    LoginAttempts,
)


def test_few_guesses_a_minute() -> None:
    attempts = LoginAttempts()
    for number in range(TOGETHER_MAX):
        assert attempts.wait_ms("alice", "a", number) == 0
        attempts.failed("alice", "a", number)
    assert attempts.wait_ms("alice", "a", TOGETHER_MAX) == WINDOW_MS - TOGETHER_MAX
    assert attempts.wait_ms("alice", "a", WINDOW_MS) == 0


def test_somebody_elsewhere_is_not_locked_out_by_that() -> None:
    attempts = LoginAttempts()
    for _ in range(TOGETHER_MAX):
        attempts.failed("alice", "a", 0)
    assert attempts.wait_ms("alice", "b", 1) == 0
    assert attempts.wait_ms("bob", "a", 1) == 0


def test_many_names_from_one_address() -> None:
    attempts = LoginAttempts()
    for number in range(ADDRESS_MAX):
        attempts.failed(f"user{number}", "a", 0)
    assert attempts.wait_ms("another", "a", 1) > 0
    assert attempts.wait_ms("another", "b", 1) == 0


def test_one_name_from_many_addresses() -> None:
    attempts = LoginAttempts()
    for number in range(USER_MAX):
        attempts.failed("alice", f"a{number}", 0)
    assert attempts.wait_ms("alice", "new", 1) > 0


def test_a_right_secret_forgives() -> None:
    attempts = LoginAttempts()
    for _ in range(TOGETHER_MAX - 1):
        attempts.failed("alice", "a", 0)
    attempts.succeeded("alice", "a")
    attempts.failed("alice", "a", 1)
    assert attempts.wait_ms("alice", "a", 2) == 0


def test_what_is_remembered_is_bounded() -> None:
    attempts = LoginAttempts()
    for number in range(KEYS_MAX):
        attempts.failed(f"user{number}", f"a{number}", number)
    assert len(attempts._failed) <= KEYS_MAX
    assert attempts.wait_ms(f"user{KEYS_MAX - 1}", f"a{KEYS_MAX - 1}", KEYS_MAX) == 0
