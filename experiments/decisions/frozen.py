"""Frozen parameters chosen by training, stored in a file.

Tests and reports use these and no others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from experiments.decisions.rules import RULES
from experiments.decisions.training import Choice
from experiments.decisions.watch import MORE_NOISE_SEEDS, TRAINING_SEEDS, WATCHES, Watch
from filters.decisions.overload_detection import REGISTRY

FILE = Path(__file__).with_name("frozen.json")


def write(choices: dict[tuple[Watch, str], Choice], path: Path = FILE) -> None:
    """Write the choices, sorted by way of watching and rule; those of the file that are not among them stay."""
    before = json.loads(path.read_text())["choices"] if path.exists() else []
    entries = {(each["watch"], each["rule"]): each for each in before}
    entries |= {(watch.name, rule): _entry(watch, rule, choice) for (watch, rule), choice in choices.items()}
    order = [(watch.name, rule) for watch in WATCHES for rule in RULES]
    document = {
        "training_seeds": TRAINING_SEEDS,
        "more_noise_of_the_default_rule": MORE_NOISE_SEEDS,
        "choices": [entries[name] for name in order if name in entries],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _entry(watch: Watch, rule: str, choice: Choice) -> dict[str, Any]:
    return {
        "watch": watch.name,
        "rule": rule,
        "parameters": msgspec.to_builtins(choice.parameters),
        "training": {
            "false_alarms": choice.false_alarms,
            "host_hours": choice.host_hours,
            "mean_delay_seconds": choice.seconds,
            "step_p95_seconds": choice.step_seconds,
            "repeated_alarms_per_noisy_step": choice.repeated,
        },
    }


def read(path: Path = FILE) -> dict[tuple[str, str], Any]:
    """The parameters by name of the way of watching and of the rule."""
    document = json.loads(path.read_text())
    return {
        (each["watch"], each["rule"]): msgspec.convert(each["parameters"], type(REGISTRY[each["rule"]].defaults))
        for each in document["choices"]
    }
