"""Printer of the resource table in docs/http.md."""

from __future__ import annotations

from acquisition.config.settings import Settings
from filters.service.http.access import access
from filters.service.interface.openapi import table
from filters.service.service import Service

if __name__ == "__main__":
    settings = Settings()
    print(table(Service(settings, access(settings.serve)).resources))
