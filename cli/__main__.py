"""``python -m cli``: what the ``sluice`` launcher runs once the environment stands."""

from __future__ import annotations

import sys

from cli.app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
