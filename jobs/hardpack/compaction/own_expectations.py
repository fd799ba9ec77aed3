"""What users expect of their rows beside the guarantees, judged when a table is verified."""

from __future__ import annotations

import time
from collections.abc import Collection

from hardpack.compaction.data_docs import page_title
from hardpack.compaction.data_docs import partitions as partitions_of
from hardpack.compaction.report import Check, OwnCheck, VerifyReport
from hardpack.compaction.session import TableSession
from hardpack.rules.model import Partition
from hardpack.spark.columns import in_logs
from hardpack.spark.sql_text import quoted


def with_own_expectations(
    session: TableSession, report: VerifyReport, partitions: Collection[Partition] | None
) -> VerifyReport:
    """Runs a user's own expectations and adds what they find to the report, if the passes kept the guarantees.

    They lie in HARDPACK_HOME/expectations, as TABLE.json or default.json, in the format of Great Expectations.

    Args:
        session: the table's.
        report: of the guarantees.
        partitions: only rows of these logs; None for all rows.

    Raises:
        BadInput: the file cannot be used.
        Unavailable: the rows could not be read.
    """
    from hardpack_expectations.own import file_of, judge_own

    if not report.passes_hold:
        # a broken guarantee is reported first: nothing here, such as a wrong file, may hide it
        return report
    file = file_of(session.home, session.name)
    if file is None or session.base is None:
        return report
    started, snapshot = time.monotonic(), session.base
    rows = session.jvm.spark.read.option("versionAsOf", snapshot).table(quoted(session.jvm.name))
    if partitions is not None:
        rows = rows.where(in_logs(session.columns(session.settings), partitions))
    logs = [] if partitions is None else list(partitions)
    about = {
        "Expectations": file.name,
        "Snapshot": f"{snapshot}, as published",
        "Partitions": partitions_of(logs) or "all",
    }
    title = page_title(session.name, logs, f"own expectations {snapshot}")
    verdict, severities = judge_own(rows, file, session.name, title, session.home, about)
    checks = [
        OwnCheck(**Check.model_validate(result).model_dump(), severity=severity)
        for result, severity in zip(verdict.results, severities, strict=True)
    ]
    return report.model_copy(
        update={
            "own": tuple(checks),
            "data_docs": (*report.data_docs, verdict.page),
            "seconds": round(report.seconds + time.monotonic() - started, 1),
        }
    )
