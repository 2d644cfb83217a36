"""Prometheus exposition: snapshot and pipeline health as text.

Formats are OpenMetrics and the classic text format.

Start at ``render``. Everything here is pure; ``command`` alone reads shards.
"""

from filters.prometheus.naming import FIGURES
from filters.prometheus.rows import Prepared
from filters.prometheus.samples import Options
from filters.prometheus.scrape import chunks, render
from filters.prometheus.syntax import CLASSIC, OPENMETRICS, Syntax, negotiate

__all__ = ["CLASSIC", "FIGURES", "OPENMETRICS", "Options", "Prepared", "Syntax", "chunks", "negotiate", "render"]
