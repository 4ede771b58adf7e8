"""Plain text tables."""

from __future__ import annotations

from collections.abc import Sequence


def render(head: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> str:
    """Columns two spaces apart, as wide as their widest cell; columns named in `right` are set to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    aligned = [str.rjust if name in right else str.ljust for name in head]
    lines = []
    for line in [list(head), *cells]:
        text = "  ".join(align(cell, width) for align, cell, width in zip(aligned, line, widths, strict=True))
        lines.append(text.rstrip())
    return "\n".join(lines)


def nbytes(count: int) -> str:
    """8294400 -> "7.9 MiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def seconds(value: float) -> str:
    """0.0123 -> "12 ms"; 75 -> "1 min 15 s"."""
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
