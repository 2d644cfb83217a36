"""The short-term filter and those who read what it wrote: kernels, state, service, query, views."""

from acquisition import extras

extras.explain()
