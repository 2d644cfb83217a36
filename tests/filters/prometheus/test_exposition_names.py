"""Hostile names of hosts, sets, metrics, entities and labels come back from the parsers as they were."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from acquisition.model.metric import Metric
from filters.prometheus import CLASSIC, render
from filters.prometheus.inputs import FIGURES as BY_PLANE
from filters.prometheus.inputs import LIMIT
from filters.prometheus.naming import FIGURES, OWN_WORDS, family_name, inputs_name, label_name
from filters.prometheus.syntax import encodable
from tests.support.exposition_blocks import block, host_entity, process, snapshot

_HOSTILE = [
    '"',
    "\\",
    "\n",
    "\r",
    "%s",
    "%",
    "{",
    "}",
    "# EOF",
    "\n# EOF\n",
    "\\n",
    "\ud800",
    "\x00",
    "é",
    "🜲",
    "",
    " ",
]
#: Names of all kinds, made of what breaks escapes as well as of anything else.
names = st.lists(st.one_of(st.sampled_from(_HOSTILE), st.text(max_size=5)), max_size=5).map("".join)
words = st.one_of(
    names,
    st.sampled_from(["U__", "U__a", "a.", "a__", "U__a_2E_"]),
    st.from_regex(r"[a-zA-Z_]{1,3}(_(ratio|bytes|count|total|last|trend|above|valid|ticks|U__x))?", fullmatch=True),
)
INPUTS = (*BY_PLANE.values(), LIMIT)
LEGAL_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LEGAL_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def decoded(name: str) -> str:
    """The text of a name in value encoding (prometheus/common), to show that it can be turned back."""
    if not name.startswith("U__"):
        return name
    return re.sub(r"__|_([0-9A-F]+)_", lambda m: chr(int(m[1], 16)) if m[1] else "_", name.removeprefix("U__"))


@given(host=names, entities=st.lists(names, min_size=1, max_size=3), labels=st.dictionaries(words, names, max_size=3))
@_SETTINGS
def test_hosts_entities_and_labels_round_trip(host: str, entities: list[str], labels: dict[str, str]) -> None:
    rows = [process("h", pid, name, labels) for pid, name in enumerate(entities)]
    found = snapshot(block(_storable(host), "processes", rows))
    text = render(found).decode()
    samples = [s for family in openmetrics.text_string_to_metric_families(text) for s in family.samples]
    infos = [s.labels for s in samples if s.name == "shardpulse_entity_info"]
    assert [info["entity"] for info in infos] == [encodable(name) for name in entities]
    assert {info["host"] for info in infos} == {_storable(host)}
    for info in infos:
        own = {decoded(key.removeprefix("label_")): value for key, value in info.items() if key.startswith("label_")}
        assert own == {encodable(key): encodable(value) for key, value in labels.items()}
    cpu = [s.labels["entity"] for s in samples if s.name == "shardpulse_processes_cpu_ratio"]
    assert cpu == [encodable(name) for name in entities]


def _storable(host: str) -> str:
    """Identities are made of bytes: a host name with a lone surrogate from JSON has none, and cannot be one."""
    return encodable(host)


@given(host=names, resource_set=words, metric=words, text=names)
@_SETTINGS
def test_sets_metrics_and_help_round_trip(host: str, resource_set: str, metric: str, text: str) -> None:
    resource_set = encodable(resource_set)
    metrics = (Metric(metric, text, "gauge", 0.0, 1.0, text),)
    found = snapshot(block(_storable(host), resource_set, [host_entity(_storable(host))], metrics))
    name = family_name(resource_set, metric).text
    families = list(openmetrics.text_string_to_metric_families(render(found).decode()))
    family = next(family for family in families if family.name == name)
    assert encodable(text).strip() in family.documentation  # the parser strips
    assert [s.labels for s in family.samples] == [{"host": _storable(host)}]
    assert {s.labels["resource_set"] for f in families for s in f.samples if f.name == "shardpulse_set_current"} == {
        resource_set
    }
    assert name in {family.name for family in classic(render(found, form=CLASSIC).decode())}


@given(st.lists(st.tuples(words, words), min_size=2, max_size=2, unique=True))
@settings(max_examples=500, deadline=None)
def test_no_two_metrics_share_a_family(pairs: list[tuple[str, str]]) -> None:
    keys = {(encodable(resource_set), encodable(metric)) for resource_set, metric in pairs}
    made = {(key, figure): family_name(*key, figure) for key in keys for figure in FIGURES}
    made |= {(key, each.word, each.unit): inputs_name(*key, each.word, each.unit) for key in keys for each in INPUTS}
    assert len({name.text for name in made.values()}) == len(made)
    for name in made.values():
        assert LEGAL_NAME.fullmatch(name.text)
        assert not name.unit or name.text.endswith(f"_{name.unit}")


def test_names_that_look_encoded_are_encoded_again() -> None:
    tricky = ("U__", "U__a", "a.", "a__", "U__a_2E_", "a_", "a", "_", "U", "U_", "__a", ".a")
    keys = list(product(tricky, tricky))
    made = [family_name(*key, figure).text for key in keys for figure in FIGURES]
    made += [inputs_name(*key, each.word, each.unit).text for key in keys for each in INPUTS]
    assert len(set(made)) == len(made)


@given(words, words)
@settings(max_examples=300, deadline=None)
def test_label_names_are_legal_and_differ(one: str, other: str) -> None:
    assert LEGAL_LABEL.fullmatch(label_name(one))
    assert (label_name(one) == label_name(other)) == (encodable(one) == encodable(other))


@given(st.sampled_from(sorted(OWN_WORDS)), words)
def test_no_resource_set_hides_what_tells_of_the_pipeline(word: str, metric: str) -> None:
    assert family_name(word, metric).text.startswith(f"shardpulse_U__{word}_")


def test_names_that_people_see() -> None:
    assert family_name("host", "cpu_idle_ratio") == ("shardpulse_host_cpu_idle_ratio", "ratio")
    assert family_name("host", "cpu_idle_ratio", "deviation") == ("shardpulse_host_cpu_idle_deviation_ratio", "ratio")
    assert family_name("vms", "network_receive_bytes_per_second", "last").text == (
        "shardpulse_vms_network_receive_last_bytes_per_second"
    )
    assert family_name("host", "cpu_count") == ("shardpulse_host_cpu_count_value", "")
    assert family_name("host", "tasks_runnable", "trend") == (
        "shardpulse_host_tasks_runnable_trend_per_second", "per_second",
    )  # fmt: skip
