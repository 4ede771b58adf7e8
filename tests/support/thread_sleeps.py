"""How often threads went to sleep by themselves: each time, something woke them."""

from __future__ import annotations

from pathlib import Path


def sleeps(pid: int, named: str = "") -> dict[str, int]:
    """Voluntary context switches of each thread of a process whose name begins so."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "status").read_text()
        except OSError:
            continue  # it has just ended
        status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if status["Name"].startswith(named):
            found[f"{status['Name']} {task.name}"] = int(status["voluntary_ctxt_switches"])
    return found
