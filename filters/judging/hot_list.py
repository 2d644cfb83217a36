"""The hot hosts of a data center of any size in one reading: what a scheduler asks at every tick.

Each host is judged by its newest sample, also before its tick is due (see ``newest``).
A screen (see ``overload_detection.rule``) says by arrays who is certainly not hot; the others, and all on
whom there is any doubt, are read in full and judged by the rule itself. The verdicts are the same as if all had been.
A rule without a screen, or one that needs the recent values, judges every host.

::

    with SnapshotReader.connect() as reader:
        decided = hot_list(reader, settings.decisions, method, hot_before, last)    # last = LastVerdicts(), kept
        hot_before = decided.heat.hot
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from acquisition.config.decisions import Decisions
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import SnapshotReader, collector
from acquisition.snapshot.column import Bools
from acquisition.snapshot.survey import Survey
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import Method
from filters.decisions.overload_detection.rule import OneMetric
from filters.judging.last_verdicts import LastVerdicts
from filters.judging.observe import observe
from filters.judging.sources import inputs_of

_NAME = attrgetter("name")


@collector.paused()
def hot_list(
    reader: SnapshotReader,
    settings: Decisions,
    method: Method,
    hot_before: frozenset[str] = frozenset(),
    last: LastVerdicts | None = None,
) -> Decided:
    """Hot hosts and those on which the rule abstains; ``picture.others`` counts the rest. With the ``last`` verdicts
    only those are judged again of whom something has come.

    Raises ShardError, TemporaryError or PermissionRefused when no shard can be read.
    """
    survey = reader.survey(HOST_SET, newest=True)
    well = _well(survey, method, hot_before)
    standing = {} if last is None else last.standing(survey, ~well, method, hot_before)
    judged = ~well
    judged[list(standing)] = False
    snapshot, tables = reader.details(survey, judged)
    picture = observe(snapshot, settings, inputs_of(reader, snapshot, method.rule, tables))
    picture = picture._replace(tick=survey.tick, others=int(well.sum()))
    if last is None:
        return decide(picture, method, None, hot_before)
    hosts, verdicts = last.of(standing.values(), snapshot.now)
    everyone = sorted((*picture.hosts, *hosts), key=_NAME)
    decided = decide(picture._replace(hosts=tuple(everyone)), method, None, hot_before, known=verdicts)
    last.take(snapshot, picture, method, hot_before, decided.heat, verdicts)
    return decided


def _well(survey: Survey, method: Method, hot_before: frozenset[str]) -> Bools:
    """Who is certainly not hot, (N,)."""
    rule, parameters = method.rule, method.parameters
    if rule.screen is None or not isinstance(parameters, OneMetric):
        return np.zeros(len(survey.hosts), np.bool_)
    was_hot = np.isin(survey.hosts, np.array([int(host, 16) for host in hot_before], np.uint64))
    return rule.screen(survey.column(parameters.metric), parameters, was_hot)
