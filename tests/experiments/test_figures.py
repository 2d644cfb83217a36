from experiments.harness.quantiles import medians, percentiles


def test_percentiles_of_nothing_are_none():
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None, "max": None}


def test_percentiles():
    assert percentiles([float(i) for i in range(101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


def test_medians_go_through_nested_figures_and_keep_the_rest():
    runs = [{"a": n, "b": {"c": n / 2}, "d": "text", "e": None if n == 1 else 3.0, "f": True} for n in (1, 9, 3)]
    assert medians(runs) == {"a": 3, "b": {"c": 1.5}, "d": "text", "e": None, "f": True}
