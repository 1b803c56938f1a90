from popmq_broker.core.store.disk_pause import DiskPause


def test_each_failure_doubles_the_pause_up_to_the_longest() -> None:
    pause = DiskPause(100, 300)
    assert pause.left_ms(0) == 0
    for expected_ms in (100, 200, 300, 300):
        pause.begin(1_000)
        assert pause.left_ms(1_000) == expected_ms
    assert pause.left_ms(1_250) == 50
    assert pause.left_ms(1_300) == 0


def test_what_the_disk_takes_ends_the_pause() -> None:
    pause = DiskPause(100)
    pause.begin(0)
    pause.begin(0)
    pause.end()
    assert pause.left_ms(0) == 0
    pause.begin(0)
    assert pause.left_ms(0) == 100


def test_a_wall_clock_that_is_set_back_does_not_make_it_longer() -> None:
    pause = DiskPause(100, 300)
    pause.begin(1_000_000)
    assert pause.left_ms(0) == 0
