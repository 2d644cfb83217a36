"""``shardpulse config``: print every setting, or validate a file."""

from __future__ import annotations

import json
import sys

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.config import metric_registry
from acquisition.config import text as config_text
from acquisition.errors import EXIT_OK

_DESCRIPTION = """\
Print all settings as TOML, each with its meaning, limits and value.

Without --file the defaults are printed, as a starting point. With --file the file is
validated and the resulting settings are printed; an unknown key, a wrong type or a
value out of range is reported with file, line and key."""

_EXAMPLES = """
shardpulse config > shardpulse.toml            write the defaults to a file
shardpulse config --file shardpulse.toml       validate a file and show the result
shardpulse config --file my.toml --json        the same as JSON
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = help_text.parser("config", _DESCRIPTION, _EXAMPLES)
    parser.add_argument(
        "--file", "--config", metavar="FILE", dest="file", help="configuration file to validate and print"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of TOML")
    options = parser.parse_args(argv)
    settings = metric_registry.load_checked(options.file) if options.file else config.Settings()
    if options.json:
        json.dump(config_text.document(settings), sys.stdout, indent=2)
        print()
    else:
        sys.stdout.write(config_text.render(settings, metric_registry.choices()))
    return EXIT_OK
