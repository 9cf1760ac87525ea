"""Draw the text of a terminal as SVG: ``python docs/pictures/terminal.py docs/pictures/explain.txt``."""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

SIZE = 14  # of the letters; everything in pixels
ADVANCE = 8.43  # of one letter of a monospaced font of that size
LINE = 21
MARGIN = 24
BAR = 34  # height of the title bar
HEADINGS = ("Why it waits", "Node by node", "What you can do")
FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"


def colour(line: str) -> str:
    """Return the colour of a line."""
    if line.startswith("$ "):
        return "#7ee2a8"
    return "#f2c572" if line in HEADINGS else "#d7dce5"


def drawn(lines: list[str], title: str) -> str:
    """Return the picture: a window of its own colour, so that it suits light and dark pages."""
    width = round(max(map(len, lines)) * ADVANCE) + 2 * MARGIN
    height = BAR + len(lines) * LINE + MARGIN
    dots = "".join(f'<circle cx="{20 + 18 * place}" cy="17" r="5.5" fill="#4b5468"/>' for place in range(3))
    text = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + 18 + LINE * number}" fill="{colour(line)}" xml:space="preserve"'
        f' textLength="{len(line) * ADVANCE:.0f}">{escape(line)}</text>'
        for number, line in enumerate(lines)
        if line
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"
     height="{height}" role="img" font-family="{FONT}" font-size="{SIZE}">
<title>{escape(title)}</title>
<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="#1c2230" stroke="#5b6478"/>
{dots}
{text}
</svg>"""


if __name__ == "__main__":
    source = Path(sys.argv[1])
    shown = source.read_text().splitlines()
    source.with_suffix(".svg").write_text(drawn(shown, f"What a terminal shows: {shown[0][2:]}") + "\n")
