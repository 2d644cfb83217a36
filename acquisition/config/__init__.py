"""Configuration: parses one TOML file into frozen settings (``load``)."""

from acquisition.config.loader import load
from acquisition.config.settings import Settings

__all__ = ["Settings", "load"]
