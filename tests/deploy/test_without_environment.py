"""What documents let people run with ``python -m`` says in a sentence what to do where the environment is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from acquisition.errors import EXIT_UNAVAILABLE
from experiments.__main__ import programs
from tests.support import ROOT

_NAMED = re.compile(r"python3? -m ((?:acquisition|probes|filters|experiments|tests)[\w.]*\w)")
_PAGES = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/run", ROOT / "tests/support/hosts/__main__.py")


def test_every_named_module_explains_itself_or_names_the_environment() -> None:
    named = {name for page in _PAGES for name in _NAMED.findall(page.read_text())}
    named |= {f"experiments.{name}" for name in programs()}
    assert {"tests.support.hosts", "experiments.ingest", "filters.service.resources"} <= named
    with ThreadPoolExecutor(4) as pool:
        wrong = dict(pool.map(_unexplained, filter(find_spec, sorted(named))))
    assert not {name: said for name, said in wrong.items() if said}


def _unexplained(name: str) -> tuple[str, str]:
    """What a module says that is neither its usage nor the sentence. -S: nothing that pip has installed is found."""
    command = [sys.executable, "-S", "-m", name]
    done = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    sentence = (
        rf'{name} requires the package \w+, .* run "\$\(python3 deploy/environment\.py .*/bin/python" -m {name}\n'
    )
    said = re.fullmatch(sentence, done.stderr) and done.returncode == EXIT_UNAVAILABLE
    return name, "" if said or not done.returncode or done.stderr.startswith("usage: ") else done.stderr
