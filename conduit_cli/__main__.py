"""`python -m conduit_cli`."""

from __future__ import annotations

import sys

from conduit_cli.app import main

if __name__ == "__main__":
    sys.exit(main())
