"""OpenStack Watcher datasource over shardpulse snapshots (docs/watcher.md).

``datasource``    the class that Watcher asks, a subclass of its ``DataSourceBase``
``meters``        what Watcher's metrics are in terms of ours, in Watcher's units
``readings``      a snapshot by host name and VM uuid, and what of it may be answered
``registration``  how Watcher comes to know the datasource

Nothing here is imported by the rest of the product; ``datasource`` and ``registration``
need the extra ``watcher`` (PyPI: python-watcher).
"""
