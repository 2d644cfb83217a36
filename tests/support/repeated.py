"""Repetition of failed tests, alone, after a whole run: pytest plugin.

Its option is ``--repeat-failed``, from tests/run.

When all workers have ended, each failed test runs by itself in a process of its own. If it passes, it is flaky: it
counts as passed, its first failure is printed, and it is named at the end. The run fails if a test fails twice or more
than three are flaky. A sample lost once is a bug even if the next run loses none: a test that counts lost samples, a
test of chaos and one that crashed its process are not repeated. A run of some tests (paths, ``-k``, ``-x``, ``--pdb``,
``--lf`` …) repeats nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from copy import copy

import pytest

MOST_FLAKY = 3
_MOST_REPEATED = 10  #: with more failures the run fails in any case, and running all of them alone takes long
_ONCE = re.compile(r"chaos|(?<![a-z])books|lost|applied_once")  #: in the name of a test's file, or in the test
_CHOSEN = {
    "keyword": "", "deselect": None, "maxfail": 0, "usepdb": False, "lf": False, "failedfirst": False,
    "stepwise": False,
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--repeat-failed", action="store_true", help="run a test that failed once more, alone")


def is_whole_run(config: pytest.Config) -> bool:
    """Whether the command line selects no test by path or name, and no debugging."""
    chosen = any(config.getoption(name, None) not in (none, None) for name, none in _CHOSEN.items())
    return not chosen and config.args == config.getini("testpaths")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Repeat what failed, after the workers have ended and before the summary is printed."""
    config = session.config
    if hasattr(config, "workerinput") or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    if config.getoption("--repeat-failed") and is_whole_run(config):
        terminal: pytest.TerminalReporter = config.pluginmanager.getplugin("terminalreporter")
        repeated = _Repeated(config, terminal)
        config.pluginmanager.register(repeated)
        if repeated.repeat():
            session.exitstatus = pytest.ExitCode.OK


class _Repeated:
    """The failures of a run, and what became of them."""

    def __init__(self, config: pytest.Config, terminal: pytest.TerminalReporter) -> None:
        self._config = config
        self._terminal = terminal
        self._stats = terminal.stats
        self._first: dict[str, list[pytest.TestReport]] = {}  #: failed reports of a test that may be repeated
        self._flaky: list[str] = []
        self._twice: dict[str, str] = {}  #: what the second run printed

    def repeat(self) -> bool:
        """Whether the run succeeds."""
        failures = [*self._stats.get("failed", ()), *self._stats.get("error", ())]
        for report in failures:
            # a file that cannot be imported is no test, and the report of a crash has no keywords
            if isinstance(report, pytest.TestReport) and report.keywords and not self._is_once(report):
                self._first.setdefault(report.nodeid, []).append(report)
        if len(self._first) > _MOST_REPEATED:
            return False
        for nodeid in self._first:
            passed, printed = self._run_alone(nodeid)
            if passed:
                self._flaky.append(nodeid)
            else:
                self._twice[nodeid] = printed
        if len(self._flaky) <= MOST_FLAKY:
            self._count_flaky_as_passed()
        return not self._stats.get("failed") and not self._stats.get("error")

    def _is_once(self, report: pytest.TestReport) -> bool:
        """Whether this is a test of chaos or of reconciliation, by its text: not all tests that read lost samples are
        in files of their own."""
        path = self._config.rootpath / report.nodeid.partition("::")[0]
        name = report.location[2].partition("[")[0].rpartition(".")[2]
        text = path.read_text()
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == name]
        texts = [path.stem, *(ast.get_source_segment(text, node) or "" for node in found)]
        return any(_ONCE.search(each) for each in texts)

    def _run_alone(self, nodeid: str) -> tuple[bool, str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={self._config.rootpath}"]
        if self._config.inipath is not None:
            command += ["-c", str(self._config.inipath)]
        done = subprocess.run([*command, nodeid], cwd=self._config.rootpath, capture_output=True, text=True)
        last = done.stdout.splitlines()[-1:]
        return done.returncode == 0 and " passed" in "".join(last), done.stdout + done.stderr

    def _count_flaky_as_passed(self) -> None:
        passed = {report.nodeid for report in self._stats.get("passed", ()) if report.when == "call"}
        for outcome in ("failed", "error"):
            kept = [report for report in self._stats.pop(outcome, ()) if report.nodeid not in self._flaky]
            if kept:
                self._stats[outcome] = kept
        for nodeid in self._flaky:
            first = self._first[nodeid][0]
            self._stats.setdefault("flaky", []).append(first)
            if nodeid not in passed:  # only its teardown failed
                report = copy(first)
                report.outcome, report.when, report.longrepr = "passed", "call", None
                self._stats.setdefault("passed", []).append(report)
        self._terminal._set_main_color()  # of the last line, which also learns the word flaky

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The failures of flaky tests, what failed twice printed the second time, and the list of both."""
        if self._stats.get("flaky"):
            terminalreporter.section("first failures of flaky tests")
            for nodeid in self._flaky:
                for report in self._first[nodeid]:
                    terminalreporter.write_sep("_", f"{nodeid} ({report.when})")
                    terminalreporter.line(report.longreprtext)
        if self._twice:
            terminalreporter.section("second failures, alone")
            for nodeid, printed in self._twice.items():
                terminalreporter.write_sep("_", nodeid)
                terminalreporter.line(printed)
        terminalreporter.section("failed tests run once more, alone")
        if len(self._first) > _MOST_REPEATED:
            terminalreporter.line(f"none of {len(self._first)}: with more than {MOST_FLAKY} the run fails in any case")
        for nodeid in self._twice:
            terminalreporter.line(f"failed twice: {nodeid}")
        for nodeid in self._flaky:
            terminalreporter.line(f"flaky: {nodeid} (passed when it ran alone)")
        if len(self._flaky) > MOST_FLAKY:
            terminalreporter.line(f"{len(self._flaky)} flaky tests, and at most {MOST_FLAKY} are accepted")
