"""The hot hosts of a data center of any size in one reading: what a scheduler asks at every tick.

Each host is judged by its newest sample, also before its tick is due (see ``newest``).
A screen (see ``overload_detection.rule``) says by arrays who is certainly not hot, and of some rules who certainly is:
these are made, and judged with their reasons, when somebody looks at them (``later_hosts``). All on whom there is any
doubt are read in full and judged by the rule itself. The verdicts are the same as if all had been.
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
from acquisition.snapshot.column import Bools, Doubles
from acquisition.snapshot.later_blocks import LaterBlocks
from acquisition.snapshot.survey import Survey
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import Method
from filters.decisions.overload_detection.rule import OneMetric
from filters.judging.last_verdicts import LastVerdicts
from filters.judging.later_hosts import LaterHosts, joined
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
    only those are judged again of whom something has come. Whoever holds the answer holds the records that were read
    until he has looked at everything.

    Raises ShardError, TemporaryError or PermissionRefused when no shard can be read.
    """
    survey = reader.survey(HOST_SET, newest=True)
    well, excess = _certain(survey, method, hot_before)
    later, names = reader.named(survey, np.isfinite(excess))
    judged = ~well
    judged[later] = False
    standing = {} if last is None else last.standing(survey, judged, method, hot_before)
    judged[list(standing)] = False
    snapshot, tables = reader.details(survey, judged)
    picture = observe(snapshot, settings, inputs_of(reader, snapshot, method.rule, tables))
    hosts, verdicts = ([], {}) if last is None else last.of(standing.values(), snapshot.now)
    everyone = sorted((*picture.hosts, *hosts), key=_NAME)
    others = int(well.sum())
    whole = picture._replace(tick=survey.tick, hosts=everyone, others=others + len(later))
    decided = decide(whole, method, None, hot_before, known=verdicts)
    if last is not None:
        last.take(snapshot, picture, method, hot_before, decided.heat, verdicts)
    blocks = LaterBlocks(survey, later, names, snapshot.now)
    by_host = {f"{host:016x}": each for host, each in zip(blocks, excess[later].tolist(), strict=True)}
    found, heat = joined(everyone, decided.heat, by_host, LaterHosts(blocks, settings, method, hot_before))
    return decided._replace(picture=whole._replace(hosts=found, others=others), heat=heat)


def _certain(survey: Survey, method: Method, hot_before: frozenset[str]) -> tuple[Bools, Doubles]:
    """Who is certainly not hot, and the excess of those who certainly are, NaN for all others, (N,)."""
    rule, parameters = method.rule, method.parameters
    well, excess = np.zeros(len(survey.hosts), np.bool_), np.full(len(survey.hosts), np.nan)
    if rule.screen is None or not isinstance(parameters, OneMetric):
        return well, excess
    was_hot = np.isin(survey.hosts, np.array([int(host, 16) for host in hot_before], np.uint64))
    column = survey.column(parameters.metric)
    well = rule.screen(column, parameters, was_hot)
    return well, excess if rule.certain is None else rule.certain(column, parameters, was_hot)
