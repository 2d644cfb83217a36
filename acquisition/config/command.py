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
Print every setting as TOML, each with its meaning, limits and value.

Without --file these are the defaults: a file to start from. With --file the file is
checked and what results from it is printed; an unknown key, a wrong type and a value
out of its limits are errors that name file, line and key."""

_EXAMPLES = """
shardpulse config > shardpulse.toml            a file to start from
shardpulse config --file shardpulse.toml       is it right? and what results from it?
shardpulse config --file my.toml --json        the same for a machine
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = help_text.parser("config", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--file", "--config", metavar="FILE", dest="file", help="the file to check and to print")
    parser.add_argument("--json", action="store_true", help="print JSON instead of TOML")
    options = parser.parse_args(argv)
    settings = metric_registry.load_checked(options.file) if options.file else config.Settings()
    if options.json:
        json.dump(config_text.document(settings), sys.stdout, indent=2)
        print()
    else:
        sys.stdout.write(config_text.render(settings, metric_registry.choices()))
    return EXIT_OK
