"""Metric tables as Markdown: ``python -m probes.metrics > docs/metrics.md``."""

from __future__ import annotations

from probes.metrics import RESOURCE_SETS


def markdown() -> str:
    """Content of ``docs/metrics.md``."""
    parts = [
        "# Metrics\n",
        "For authors of rules and schedulers, who look up what a metric means. Generated from `probes/metrics` by",
        "`python -m probes.metrics > docs/metrics.md`.\n",
        "Names carry base units, and mean the same from every source. A counter is read as a counter and sent as a",
        "rate. No machine can leave the range from low to high; the check `rate` adds the limits of the sampled",
        "machine ([validity codes](validity.md)). What cannot be read is MISSING, never 0.",
    ]
    for resource_set in RESOURCE_SETS.values():
        parts.append(f"\n## {resource_set.name}\n\n| metric | unit | kind | low | high | meaning |")
        parts.append("|---|---|---|---|---|---|")
        parts.extend(
            f"| `{m.name}` | {m.unit} | {m.kind} | {m.low:g} | {m.high:g} | {m.help} |" for m in resource_set.metrics
        )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
