"""Prometheus: a snapshot and the condition of the pipeline as OpenMetrics text, or the classic text format.

Start at ``render``. Everything here is pure; ``command`` alone reads shards.
"""

from filters.exposition.labels import Prepared
from filters.exposition.naming import FIGURES
from filters.exposition.options import Options
from filters.exposition.scrape import chunks, render
from filters.exposition.syntax import CLASSIC, OPENMETRICS, Syntax, negotiate

__all__ = ["CLASSIC", "FIGURES", "OPENMETRICS", "Options", "Prepared", "Syntax", "chunks", "negotiate", "render"]
