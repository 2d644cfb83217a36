"""The rows of scale: targets that are missed."""

import json

from experiments.scale import __main__ as scale
from experiments.scale.runs import Extent, Row, Target

EXTENT = Extent(1.0, 1.0, 1, False)


def test_a_missed_target_or_a_failed_run_fails_unless_it_is_quick():
    rows = {"limit": Row([Target("ratio", 2.4, 2.0, False)], {}, [])}
    document = scale.summary([], rows, EXTENT)
    assert not document["passed"]
    assert document["missed"] == ["ratio: 2.4 is not at most 2"]
    assert scale.summary([], rows, EXTENT._replace(quick=True))["passed"]
    assert not scale.summary([], {"limit": rows["limit"]._replace(failures=["x"])}, EXTENT._replace(quick=True))[
        "passed"
    ]
    json.dumps(document)
