"""OpenStack Watcher datasource over shardpulse snapshots (docs/watcher.md).

``datasource``    class used by Watcher, a subclass of its ``DataSourceBase``
``meters``        Watcher's metrics in terms of ours, in Watcher's units
``readings``      a snapshot by host name and VM uuid, with the values fit for answers
``registration``  registration of the datasource with Watcher

The rest of the product imports nothing from here; ``datasource`` and ``registration``
need the extra ``watcher`` (PyPI: python-watcher).
"""
