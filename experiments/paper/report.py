"""Report: plots and a self-contained HTML page with all figures.

Each has the paper's values, the baseline's and ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from experiments.paper.figure import Figure, Finding, Records

_STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid #ccc; padding: .3em .6em; text-align: left }
th { background: #f4f4f4 } svg { max-width: 100%; height: auto } code { font-size: 90% }
"""
_VALUES = ("what", "paper", "baseline", "shardpulse")


class Shown(NamedTuple):
    """A figure of the report: its findings, two sentences, its plot (SVG), and the cores used for sampling."""

    figure: Figure
    findings: Sequence[Finding]
    says: tuple[str, str]
    svg: str
    sampling: Sequence[float]


def plot(figure: Figure, records: Records, directory: Path) -> str:
    """Write NAME.png and NAME.svg; the SVG element, for a page."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure as Plot

    # Text stays text; ids of different SVGs in the same page do not collide.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name}):
        drawn = Plot(figsize=figure.size, layout="constrained")
        figure.draw(drawn, records)
        for axis in drawn.axes:
            axis.grid(alpha=0.3)
        drawn.savefig(directory / f"{figure.name}.png", dpi=100, metadata={"Software": ""})
        drawn.savefig(directory / f"{figure.name}.svg", metadata={"Date": None})
    text = (directory / f"{figure.name}.svg").read_text()
    return text[text.index("<svg") :]


def page(document: Mapping[str, Any], shown: Sequence[Shown]) -> str:
    """The report for the ``document`` of a run."""
    findings = [finding for each in shown for finding in each.findings]
    goals = [
        (finding.what, finding.goal, finding.shardpulse, _verdict(finding.met, document["quick"]))
        for finding in findings
        if finding.goal
    ]
    refuted = [
        (finding.what, finding.paper, finding.baseline, finding.why)
        for finding in findings
        if finding.reproduced is False
    ]
    machine = document["machine"]
    facts = [(name, str(value)) for name, value in machine.items() if not isinstance(value, dict)]
    facts += [(name, version) for name, version in {**machine["packages"], **document["versions"]}.items()]
    return "\n".join([
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The paper again</title>',
        f"<style>{_STYLE}</style></head><body><h1>The paper again</h1>",
        f"<p><code>{escape(document['command'])}</code>, commit {escape(document['commit'] or 'unknown')}, "
        f"{escape(document['date'])}, {document['seconds_per_point']:g} s per point.</p>",
        *(f"<p><strong>FAILED: {escape(failure)}</strong></p>" for failure in document["failures"]),
        *(_section(each) for each in shown),
        "<h2>Goals of shardpulse</h2>",
        _table(("what", "goal", "measured", "verdict"), goals),
        "<h2>Claims of the paper that did not reproduce here, and why</h2>",
        _table(("claim", "paper", "baseline here", "why"), refuted) if refuted else "<p>None.</p>",
        "<h2>Machine</h2>",
        _table(("fact", "value"), facts),
        "</body></html>\n",
    ])  # fmt: skip


def _section(shown: Shown) -> str:
    figure = shown.figure
    origin = f"Section {figure.section} of the paper." if figure.section else "Left open by the paper."
    values = [finding[:4] for finding in shown.findings]
    sampling = f" Sampling took {max(shown.sampling):.2g} of a core at most." if shown.sampling else ""
    return "\n".join([
        f'<h2 id="{figure.name}">{escape(figure.title)}</h2><p>{origin} {escape(" ".join(shown.says))}</p>',
        shown.svg,
        _table(_VALUES, values),
        f'<p>Raw data: <code>{figure.name}.csv</code>.{sampling}</p>',
    ])  # fmt: skip


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _verdict(met: bool | None, quick: bool) -> str:
    missed = "not tried in a quick run" if quick else "NOT MET"
    return "not measured" if met is None else "met" if met else missed
