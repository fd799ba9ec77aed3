"""The state of many logs as one list per field: equal and near numbers stand beside each other, which packs to half.

Offsets are written as distances from the checkpoint, and the times of horizons as places in one list of all times.
Logs that one pass cleaned share their times, so little more than a horizon's distance is left to pack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

BY_FIELD = re.compile(r'\{\s*"version":\s*\d+,\s*"columns":')
"""Matches the beginning of a text with one list per field. Only the beginning counts: a log may be called `columns`."""
Entry = dict[str, Any]
"""The state of one log as JSON data, as `state.log_to_json` returns it."""


def columns_of(entries: Mapping[str, Entry]) -> Entry:
    """Returns the entries of a table's logs with one list per field; `entries_of` turns that back."""
    times = sorted({ms for entry in entries.values() for _, ms in entry.get("horizons", ())})
    places = {ms: place for place, ms in enumerate(times)}
    rows = [_related(entry, places) for entry in entries.values()]
    names = sorted({field for row in rows for field in row})
    columns = {field: [row.get(field) for row in rows] for field in names}
    return {"columns": columns, "times": times, "logs": list(entries)}


def entries_of(stored: Entry) -> dict[str, Entry]:
    """Returns each log's entry, by the log's name, from data with one list per field.

    Data without a list of times are of version 2: their fields stand as in the entries.

    Raises:
        ValueError: the data have another form.
    """
    try:
        columns, names, times = stored["columns"], stored["logs"], stored.get("times")
        cells = zip(*columns.values(), strict=True)
        rows = ({f: v for f, v in zip(columns, row, strict=True) if v is not None} for row in cells)
        entries = rows if times is None else (_absolute(row, times) for row in rows)
        return dict(zip(names, entries, strict=True))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from None


def steps(numbers: Iterable[int], before: int = 0) -> list[int]:
    """Returns the differences between neighbouring numbers, the first from `before`: they take fewer digits."""
    return [number - last for last, number in pairwise((before, *numbers))]


def _related(entry: Entry, places: Mapping[int, int]) -> Entry:
    row = dict(entry)
    origin = row.get("checkpoint", 0)
    if "end" in row:
        row["end"] -= origin
    if horizons := row.pop("horizons", None):
        ends = list(accumulate(step for step, _ in horizons))
        # from the last one back, as that mostly ends where the checkpoint stands
        row["horizon_ends"] = steps(reversed(ends), origin)
        row["horizon_times"] = steps([places[ms] for _, ms in horizons])
    return row


def _absolute(row: Entry, times: Sequence[int]) -> Entry:
    origin = row.get("checkpoint", 0)
    if "end" in row:
        row["end"] += origin
    if "horizon_ends" in row:
        ends = list(accumulate(row.pop("horizon_ends"), initial=origin))[:0:-1]
        at = accumulate(row.pop("horizon_times"))
        row["horizons"] = [list(h) for h in zip(steps(ends), (times[place] for place in at), strict=True)]
    return row


def as_entries(text: str) -> str:
    """Returns a state's text with one entry per log, made from one list per field where the text has these.

    Raises:
        ValueError: a text with one list per field is damaged.
    """
    # the text of a table of few logs would else be parsed twice
    if not BY_FIELD.match(text):
        return text
    stored = json.loads(text)
    entries = entries_of(stored)
    return json.dumps({"version": stored.get("version"), "logs": entries})
