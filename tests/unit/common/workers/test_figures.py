"""The page of the metrics of all workers."""

from popmq_common.workers.figures import one_page


def test_rows_of_all_workers_are_on_one_page() -> None:
    page = (
        '# HELP popmq_x_total Those x.\n# TYPE popmq_x_total counter\npopmq_x_total{a="\\n"} %d\n'
    )
    histogram = (
        "# HELP popmq_y y\n# TYPE popmq_y histogram\n"
        'popmq_y_bucket{le="1.0"} 1.0\npopmq_y_bucket{le="+Inf"} 2.0\n'
        "popmq_y_count 2.0\npopmq_y_sum 3.0\n"
    )
    assert one_page({1: page % 2, 0: page % 1 + histogram}, "shard").decode() == (
        "# HELP popmq_x_total Those x.\n# TYPE popmq_x_total counter\n"
        'popmq_x_total{a="\\n",shard="0"} 1.0\npopmq_x_total{a="\\n",shard="1"} 2.0\n'
        "# HELP popmq_y y\n# TYPE popmq_y histogram\n"
        'popmq_y_bucket{le="1.0",shard="0"} 1.0\npopmq_y_bucket{le="+Inf",shard="0"} 2.0\n'
        'popmq_y_count{shard="0"} 2.0\npopmq_y_sum{shard="0"} 3.0\n'
    )
