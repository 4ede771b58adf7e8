"""What every test sees."""

from __future__ import annotations

pytest_plugins = ["support.rule_results"]
