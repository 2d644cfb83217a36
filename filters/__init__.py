"""Filter and readers of its output: kernels, worker, service, query, views."""

from acquisition import extras

extras.explain()
