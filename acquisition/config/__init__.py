"""Configuration: one TOML file into frozen typed settings. Start at ``load``."""

from acquisition.config.loader import load
from acquisition.config.settings import Settings

__all__ = ["Settings", "load"]
