"""``python -m acquisition`` is the command ``shardpulse``."""

import sys

from acquisition.cli import main

if __name__ == "__main__":
    sys.exit(main())
