#!/usr/bin/env python3
"""A terminal screen with its colours (tmux capture-pane -e -p) on standard input to an SVG picture on standard output.

    ansi_to_svg.py COLUMNS
"""
import html
import re
import sys
import unicodedata

CW, CH, PAD = 8, 17, 12
BACKGROUND, TEXT = "#16161a", "#e6e6ea"


def cells(ch):
    if unicodedata.combining(ch) or ch in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1


def apply(style, params):
    """The style after an SGR sequence: foreground, background, bold, italic, underline."""
    p = [int(x or 0) for x in re.split("[;:]", params)] if params else [0]
    i = 0
    while i < len(p):
        v = p[i]
        if v == 0:
            style = {}
        elif v in (1, 3, 4):
            style = {**style, {1: "bold", 3: "italic", 4: "underline"}[v]: True}
        elif v in (22, 23, 24):
            style = {k: x for k, x in style.items() if k != {22: "bold", 23: "italic", 24: "underline"}[v]}
        elif v in (38, 48) and p[i + 1:i + 2] == [2]:
            style = {**style, "fg" if v == 38 else "bg": "#%02x%02x%02x" % tuple(p[i + 2:i + 5])}
            i += 4
        elif v in (39, 49):
            style = {k: x for k, x in style.items() if k != ("fg" if v == 39 else "bg")}
        i += 1
    return style


def runs(line):
    """(column, text, cells, style) of each run of one style."""
    style, x = {}, 0
    for part in re.split(r"(\x1b\[[0-9;:]*m|\x1b\][^\x1b]*\x1b\\|\x1b\(B|\x0f)", line):
        m = re.fullmatch(r"\x1b\[([0-9;:]*)m", part)
        if m:
            style = apply(style, m[1])
        elif part and part[0] not in "\x1b\x0f":
            for piece in re.findall(r"[\u2800-\u28ff]+|[^\u2800-\u28ff]+", part):
                n = sum(cells(c) for c in piece)
                yield x, piece, n, style
                x += n


def main():
    cols = int(sys.argv[1])
    lines = sys.stdin.read().rstrip("\n").split("\n")
    w, h = cols * CW + 2 * PAD, len(lines) * CH + 2 * PAD
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
           f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13.3" fill="{TEXT}" xml:space="preserve">',
           f'<rect width="{w}" height="{h}" rx="8" fill="{BACKGROUND}"/>']
    for y, line in enumerate(lines):
        for x, text, n, style in runs(line):
            px, py = PAD + x * CW, PAD + y * CH
            if style.get("bg"):
                out.append(f'<rect x="{px}" y="{py}" width="{n * CW}" height="{CH}" fill="{style["bg"]}"/>')
            if not text.strip():
                continue
            look = f' fill="{style["fg"]}"' if style.get("fg") else ""
            look += ' font-weight="bold"' if style.get("bold") else ""
            look += ' font-style="italic"' if style.get("italic") else ""
            look += ' text-decoration="underline"' if style.get("underline") else ""
            out.append(f'<text x="{px}" y="{py + 13}" textLength="{n * CW}" lengthAdjust="spacingAndGlyphs"{look}>{html.escape(text)}</text>')
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
