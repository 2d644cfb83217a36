"""Probe: one light process per host that runs all of its monitor modules.

Flow: sources -> rates -> checks -> frames -> outbox -> shards. The probe's import
closure stays lean (see ``acquisition``), as checked by a test.
"""
