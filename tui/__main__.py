"""`python -m tui` is `specdeck`."""

from tui.cli import main

raise SystemExit(main())
