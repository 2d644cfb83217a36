"""The tables [probe.signing] and [filter.signing]: who signs frames, and who verifies them."""

from __future__ import annotations

from typing import Annotated

from acquisition.config.schema import Meta, Table


class ProbeSigning(Table):
    """Signatures of this host's frames, so that no other host of its partition can make any in its name."""

    key_file: Annotated[
        str,
        Meta(
            description="file (mode 0600, or $CREDENTIALS_DIRECTORY/NAME that systemd lends) with this host's key, of "
            "`shardpulse keys host`; empty: frames are not signed"
        ),
    ] = ""


class FilterSigning(Table):
    """What filters and the archive ask of frames; both read this table."""

    key_file: Annotated[
        str,
        Meta(
            description="file (mode 0600, or $CREDENTIALS_DIRECTORY/NAME that systemd lends) with the masters, of "
            "`shardpulse keys master`; empty: signatures are not looked at"
        ),
    ] = ""
    required: Annotated[
        bool, Meta(description="false: frames without a signature are taken, as long as not all probes have a key")
    ] = True
