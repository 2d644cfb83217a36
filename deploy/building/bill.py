"""Bill of materials: CycloneDX 1.6 JSON of exactly the files next to it."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from building import sums
from building.source import Source


def write(target: Path, wheels: Sequence[Path], source: Source, ours: Path) -> None:
    """Write the bill of ``wheels``, including the product ``ours``. It contains no clock and no random values."""
    components = [_component(wheel) for wheel in wheels]
    product = _component(ours)
    seed = json.dumps([components, source.commit], sort_keys=True)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, seed)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(source.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**product, "type": "application"},
            "properties": [{"name": "shardpulse:commit", "value": source.commit or "files as they lay"}],
        },
        "components": [each for each in components if each["bom-ref"] != product["bom-ref"]],
    }
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


def _component(wheel: Path) -> dict[str, Any]:
    told = metadata(wheel)
    name, version = str(told["Name"]), str(told["Version"])
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": wheel.name,
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        "hashes": [{"alg": "SHA-256", "content": sums.digest(wheel)}],
        "properties": [{"name": "shardpulse:file", "value": wheel.name}],
    }
    if told["Summary"]:
        found["description"] = str(told["Summary"])
    if licence := told["License-Expression"]:
        found["licenses"] = [{"expression": str(licence)}]
    elif licence := told["License"]:
        found["licenses"] = [{"license": {"name": str(licence).splitlines()[0]}}]
    return found


def metadata(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as content:
        (path,) = [each for each in content.namelist() if each.endswith(".dist-info/METADATA") and each.count("/") == 1]
        return BytesParser().parsebytes(content.read(path), headersonly=True)
