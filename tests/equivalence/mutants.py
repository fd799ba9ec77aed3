"""Mutations of the rules: each is put into a copy of the package, and the fast tests have to fail on it.

python -m tests.equivalence.mutants [NAME …]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/rules", "tests/equivalence/test_reference.py", "-k", "not history and not property")
"""The fast tests without those that search for a counterexample, which would find more but take longer."""


@dataclass(frozen=True)
class Mutant:
    """One change of one rule: where, what it says, and what it says instead."""

    rule: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant("ratio at the threshold is due", "selection.py", "if d.ratio > threshold:", "if d.ratio >= threshold:"),
    Mutant("ratio over all bytes", "selection.py", "for s in log.segments if s.base_offset < dirty)",
           "for s in log.segments if s.base_offset < dirty or s.base_offset >= end)"),
    Mutant("a split segment counts once", "selection.py", "for s in log.segments if s.base_offset < dirty)",
           "for s in log.segments if s.last_offset < dirty)"),
    Mutant("min lag not strict", "selection.py", "if s.largest_timestamp > young_from)",
           "if s.largest_timestamp >= young_from)"),
    Mutant("min lag ignored", "selection.py", "if settings.min_compaction_lag_ms > 0:", "if False:"),
    Mutant("max lag overrides the bound", "selection.py", "    if not d.cleanable_bytes:\n",
           "    if not d.cleanable_bytes and not d.overdue_ms:\n"),
    Mutant("max lag not strict", "selection.py", "return max(0, limit - min(stamps))",
           "return max(0, limit - min(stamps) + 1)"),
    Mutant("max lag counts rows without a time", "selection.py", "segment.first_timestamp > 0:",
           "segment.first_timestamp >= 0:"),
    Mutant("last stable offset ignored", "selection.py", "log.last_stable < bound:", "log.last_stable < 0:"),
    Mutant("last stable offset not brought down to a segment", "selection.py",
           "    if (holding := from_offset(log.segments, offset)) and holding[0] in closed:\n"
           "        return holding[0].base_offset\n", ""),
    Mutant("checkpoint past the end kept", "selection.py", "<= checkpoint <= log.log_end:", "<= checkpoint:"),
    Mutant("checkpoint below the log start kept", "selection.py", "not log.log_start <= checkpoint <= log.log_end:",
           "checkpoint > log.log_end:"),
    Mutant("the active segment is cleaned", "selection.py",
           "else log.segments[:-1]", "else log.segments"),
    Mutant("map past its end", "reference/offset_map.py", "if max_keys is not None and len(latest) >= max_keys:",
           "if max_keys is not None and len(latest) > max_keys:"),
    Mutant("a known key does not stop a full map", "reference/offset_map.py", "len(latest) >= max_keys:",
           "len(latest) >= max_keys and row.key not in latest:"),
    Mutant("aborted rows in the map", "reference/offset_map.py", " and row.offset not in aborted:", ":"),
    Mutant("a full map ends at the row before", "reference/offset_map.py",
           "            end = max(end, row.offset)\n", ""),
    Mutant("a batch read in part counts as read", "reference/offset_map.py",
           "begins = row.offset if row.batch is None else row.batch", "begins = row.offset"),
    Mutant("holes between segments are not jumped", "reference/offset_map.py",
           "*(b - 1 for b in edges if last < b <= row.offset)", "*()"),
    Mutant("the oldest row wins", "reference/offset_map.py", "latest[row.key] = row.offset",
           "latest.setdefault(row.key, row.offset)"),
    Mutant("rows behind a full map are superseded", "reference/cleaner.py", "elif row.offset <= offset_map.end:",
           "elif row.offset <= offset_map.end or row.key is None:"),
    Mutant("horizon not reached by its own time", "reference/cleaner.py", "and horizons[row.offset] <= now",
           "and horizons[row.offset] < now"),
    Mutant("horizon from the row's time", "reference/cleaner.py", "        r.offset: horizon\n",
           "        r.offset: (r.timestamp or 0) + 1000\n"),
    Mutant("horizon moves with every pass", "reference/cleaner.py", "for offset, ms in {**before, **fresh}.items()",
           "for offset, ms in {**before, **{o: horizon for o in before}, **fresh}.items()"),
    Mutant("an empty value is a tombstone", "reference/cleaner.py", "elif row.value is None and passed:",
           "elif not row.value and passed:"),
    Mutant("keyless rows stay", "reference/cleaner.py", '                causes["null_key"].add(row.offset)',
           "                pass"),
    Mutant("aborted rows behind a full map stay", "reference/cleaner.py", "        if row.offset in aborted:\n",
           "        if row.offset in aborted and row.offset <= offset_map.end:\n"),
    Mutant("a marker goes with its rows", "reference/cleaner.py", "if row.offset in emptied and passed:",
           "if row.offset in emptied:"),
    Mutant("the batch that ends a round is forgotten", "reference/cleaner.py",
           "last_batch=held_after(last_of_round(input_rows, decision.bound), log.last_batch, decision.bound)",
           "last_batch=None"),
    Mutant("checkpoint at the map's end, not after it", "reference/cleaner.py", "checkpoint=offset_map.end + 1",
           "checkpoint=offset_map.end"),
    Mutant("non-transactional rows of the producer are aborted", "reference/transactions.py",
           'elif row.transactional and decided.get(row.producer) == "abort":',
           'elif row.producer is not None and decided.get(row.producer) == "abort":'),
    Mutant("open transaction from its last row", "reference/transactions.py",
           "first.setdefault(row.producer, row.offset)", "first.update({row.producer: row.offset})"),
    Mutant("groups beyond segment.bytes", "grouping.py", "segment.bytes <= segment_bytes",
           "segment.bytes <= segment_bytes + segment.bytes"),
    Mutant("offset span one too long", "grouping.py", "<= OFFSET_SPAN)", "<= OFFSET_SPAN + 1)"),
    Mutant("time retention not strict", "retention.py", "0 <= settings.retention_ms < minus(now",
           "0 <= settings.retention_ms <= minus(now"),
    Mutant("size retention below the limit", "retention.py", "if surplus - segment.bytes < 0:",
           "if surplus < 0:"),
    Mutant("size retention one segment short", "retention.py", "if surplus - segment.bytes < 0:",
           "if surplus - segment.bytes <= 0:"),
    Mutant("retention by time before size", "retention.py", "if settings.deletes:", "if not settings.compacts:"),
    Mutant("map capacity without the load factor", "settings.py",
           "int(self.map_slots * self.log_cleaner_io_buffer_load_factor)", "self.map_slots"),
    Mutant("min lag above max lag accepted", "settings.py",
           "if self.min_compaction_lag_ms > self.max_compaction_lag_ms:", "if False:"),
    Mutant("state: a fresh horizon is served at once", "horizons.py", "and up_to not in fresh and", "and"),
    Mutant("state: tombstones behind the checkpoint go", "horizons.py", "end = min(up_to, (state.checkpoint or 0) - 1)",
           "end = up_to"),
    Mutant("state: horizons only up to the checkpoint", "horizons.py", "copied.copied_to - 1, horizon)",
           "copied.map_end - 1, horizon)"),
    Mutant("files of two Iceberg partitions become one", "grouping.py",
           "if files[at].iceberg_partition != files[beside].iceberg_partition:", "if False:"),
    Mutant("runs of two Iceberg partitions become one", "grouping.py",
           " and files[start].iceberg_partition == files[start - 1].iceberg_partition:", ":"),
    Mutant("tombstones: rows without a value count", "tombstones.py", "None if nulls is None else rows - nulls",
           "rows"),
    Mutant("tombstones: bounds that differ tell", "tombstones.py", 'return 0 if self.kind == "empty" and not match',
           "return 0 if not match"),
    Mutant("tombstones: nulls that nobody counted are none", "tombstones.py", "None if nulls is None else rows - nulls",
           "rows - (nulls or 0)"),
    Mutant("tombstones: a null matches", "tombstones.py", 'if self.kind == "none" or nulls == rows:',
           'if self.kind == "none":'),
)  # fmt: skip


def planted(mutant: Mutant) -> str:
    """The file's text with the mutant in it.

    Raises:
        ValueError: the file no longer says what the mutant changes.
    """
    text = (ROOT / "jobs" / "hardpack" / "rules" / mutant.file).read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.file} no longer says {mutant.old!r}; mend the mutant {mutant.rule!r}.")
    return text.replace(mutant.old, mutant.new)


def killed_by(mutant: Mutant) -> str:
    """The first test that fails on the mutant, empty when none does."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "hardpack")
        shutil.copytree(ROOT / "jobs" / "hardpack", package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / "rules" / mutant.file).write_text(planted(mutant))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS]
        # a folder on the path is found before the package that is installed
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return found.group(1) if found else "import"


def main() -> None:
    """Print the table; exit 1 when a mutant lives."""
    chosen = [m for m in MUTANTS if not sys.argv[1:] or m.rule in sys.argv[1:]]
    living = 0
    width = max(len(m.rule) for m in chosen)
    for mutant in chosen:
        killer = killed_by(mutant)
        living += not killer
        sys.stdout.write(f"{mutant.rule:{width}}  {mutant.file:26}  {killer or 'LIVES'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {living} live\n")
    sys.exit(bool(living))


if __name__ == "__main__":
    main()
