"""``python -m vkshare``."""

from vkshare.cli import main

raise SystemExit(main())
