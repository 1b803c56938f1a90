"""What pages of the audit have in common: the frame, tables that sort, the look.

They need no server and no network. Everything that comes from a snapshot is escaped here. The only
script sorts tables; without it a page says the same.
"""

import html
import re
from collections.abc import Sequence
from typing import Final


def document(title: str, body: str) -> str:
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main><script>{_SCRIPT}</script></body></html>\n"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Each head is a button that sorts by its column. Columns of figures end at the right."""
    kinds = [_kind([str(row[i]) for row in rows]) for i in range(len(heads))]
    told = "".join(
        f"<th{kind}><button>{html.escape(head)}</button></th>"
        for head, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{html.escape(str(cell))}</td>"
            for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class=wide><table><thead><tr>{told}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _kind(cells: Sequence[str]) -> str:
    """An attribute, for the look of a column."""
    if cells and all(_FIGURE.fullmatch(cell) for cell in cells):
        return " class=figure"
    return " class=long" if any(len(cell) > _LONG for cell in cells) else ""


_FIGURE: Final = re.compile(r"[–-]|-?[0-9][0-9,.]*( [A-Za-z]+)?")
_LONG: Final = 60
"""Characters of a cell that is wrapped."""

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d7dce1;--good:#2f8f4e;
--bad:#c2372b;--calm:#4a7fb5;--warn:#b97a10}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--paper:#15181c;--line:#363c43;--good:#4fb873;
--bad:#e86a5e;--calm:#7fb0e0;--warn:#e0a743}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{padding:1rem 1.5rem}p,header ul,section>ul,footer{max-width:80ch}
header{border-left:.5rem solid var(--warn);padding:.2rem 1rem}
header.pass{border-color:var(--good)}header.fail{border-color:var(--bad)}
h1{margin:0;font-size:2rem}header.pass h1{color:var(--good)}header.fail h1{color:var(--bad)}
header.incomplete h1{color:var(--warn)}
header ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.5rem}
h2{font-size:1.2rem;margin:2rem 0 .5rem}svg{width:100%;max-width:40rem;height:auto}
svg text{fill:currentColor;font:14px system-ui,sans-serif}
path.good{fill:var(--good)}path.bad{fill:var(--bad)}path.calm{fill:var(--calm);opacity:.75}
figure{margin:1rem 0}figcaption{font-weight:600}footer{margin:2rem 0;font-size:.85rem}
code{overflow-wrap:anywhere}polyline{fill:none;stroke-width:1.5}.grid{stroke:var(--line)}
.legend{list-style:none;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:.1rem 1rem;
font-size:.85rem}
.legend li:before{content:"";display:inline-block;width:.8em;height:.8em;margin-right:.3em;
background:currentColor}
.line0{stroke:var(--calm);color:var(--calm);fill:var(--calm)}
.line1{stroke:var(--good);color:var(--good);fill:var(--good)}
.line2{stroke:var(--warn);color:var(--warn);fill:var(--warn)}
.line3{stroke:var(--bad);color:var(--bad);fill:var(--bad)}
.line4{stroke:#8a63b8;color:#8a63b8;fill:#8a63b8}.line5{stroke:#3f9a9a;color:#3f9a9a;fill:#3f9a9a}
.line6{stroke:#8b8b3a;color:#8b8b3a;fill:#8b8b3a}.line7{stroke:#b0679a;color:#b0679a;fill:#b0679a}
.line8{stroke:#888;color:#888;fill:#888}polyline[class]{fill:none}
td.figure,th.figure{text-align:right}td.long{white-space:normal;min-width:24rem;overflow-wrap:anywhere}
details summary{cursor:pointer;font-weight:600}
.bars{display:grid;gap:.2rem .8rem;max-width:60rem;align-items:center;margin:.5rem 0 1rem;
grid-template-columns:max-content 1fr max-content}
.bars i{display:block;height:1rem;background:var(--calm)}
.bars i.bad{background:var(--bad)}.bars i.good{background:var(--good)}
.charts{display:flex;flex-wrap:wrap;gap:0 2rem}.charts figure{flex:1 1 26rem;min-width:0}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
th,td{border-bottom:1px solid var(--line);padding:.3rem .7rem;text-align:left;white-space:nowrap}
th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid}
th[aria-sort=ascending] button:after{content:" ▲"}
th[aria-sort=descending] button:after{content:" ▼"}
"""

_SCRIPT: Final = """
const value=c=>{const t=c.textContent,n=Number(t.replace(/,/g,''));return t!==''&&!isNaN(n)?n:t};
for(const b of document.querySelectorAll('th button'))b.onclick=()=>{
const h=b.parentElement,t=h.closest('table'),i=h.cellIndex,up=h.ariaSort!=='ascending';
for(const o of h.parentElement.children)o.ariaSort=null;h.ariaSort=up?'ascending':'descending';
const rows=[...t.tBodies[0].rows];rows.sort((x,y)=>{const a=value(x.cells[i]),c=value(y.cells[i]);
const d=typeof a===typeof c?(a>c)-(a<c):typeof a==='number'?-1:1;return up?d:-d});
t.tBodies[0].append(...rows)};
"""
