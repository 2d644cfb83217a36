"""Archive contents of the demo, for its report."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select

from acquisition.config.archive import Archive
from acquisition.errors import ShardpulseError
from acquisition.model.codes import WITHOUT_VALUE
from filters.archive.database.engine import make_engine, told
from filters.archive.database.schema import episodes
from filters.archive.place import url_of


class Archived(NamedTuple):
    """Place of the archive, whether it outlives the demo, and its invalid samples and their episodes."""

    place: str
    stays: bool
    invalid_samples: int
    episodes: int


def archived(settings: Archive, stays: bool, since: float) -> Archived | None:
    """Contents since ``since``, seconds since 1970; None if the database does not answer."""
    try:
        url = url_of(settings)
        engine = make_engine(url)
        with told(url), engine.connect() as connection:
            failed = episodes.c.code.not_in(WITHOUT_VALUE)
            query = select(func.count(), func.sum(episodes.c.samples)).where(episodes.c.started >= since, failed)
            count, samples = connection.execute(query).one()
        engine.dispose()
    except ShardpulseError:
        return None
    return Archived(url.render_as_string(), stays, int(samples or 0), count)
