"""Scan tasks of many files, described and staged in a few calls into the JVM, each of which takes a tenth of a ms."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from hardpack.files.content_file import ContentFile

AT_ONCE = 10_000
"""Files that one call describes, some 7 MB of JSON."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A task's place in a Java list, and its data file."""

    listed: Any
    at: int
    file: ContentFile


class ScanTasks(Mapping[str, Any]):
    """Iceberg's scan tasks, each of a whole data file, by path; the JVM is asked for a task when it is looked up."""

    def __init__(self, tasks: Mapping[str, _Task]) -> None:
        self._tasks = tasks

    @classmethod
    def planned(cls, jvm: Any, table: Any, scan: Any, paths: Collection[str] | None = None) -> ScanTasks:
        """Returns the tasks of a scan.

        Args:
            jvm: Spark's gateway to the JVM.
            table: Iceberg's table in the JVM.
            scan: the scan in the JVM, whose filter leaves files out and no rows.
            paths: of the files that are wanted, None for all.
        """
        planned = scan.ignoreResiduals().planFiles()
        try:
            listed = jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList(planned)
        finally:
            planned.close()
        wanted, tasks = None if paths is None else set(paths), dict[str, _Task]()
        for at, entry in enumerate(_entries(jvm, table.specs(), listed)):
            file = ContentFile(entry)
            if wanted is None or file.path in wanted:
                tasks[file.path] = _Task(listed, at, file)
        return cls(tasks)

    @classmethod
    def made(cls, jvm: Any, tasks: Iterable[tuple[ContentFile, Any]]) -> ScanTasks:
        """Returns tasks that were made of single files, each with its file.

        Args:
            jvm: Spark's gateway to the JVM.
            tasks: each a data file and its scan task in the JVM.
        """
        listed, made = jvm.java.util.ArrayList(), dict[str, _Task]()
        for at, (file, task) in enumerate(tasks):
            listed.add(task)
            made[file.path] = _Task(listed, at, file)
        return cls(made)

    def __getitem__(self, path: str) -> Any:
        """Returns a file's task in the JVM."""
        task = self._tasks[path]
        return task.listed.get(task.at)

    def __iter__(self) -> Iterator[str]:
        """Yields the paths."""
        return iter(self._tasks)

    def __len__(self) -> int:
        """Returns how many files there are."""
        return len(self._tasks)

    def __or__(self, others: ScanTasks) -> ScanTasks:
        """Returns these tasks and others, which win where both have a file."""
        return ScanTasks({**self._tasks, **others._tasks})

    def only(self, paths: Iterable[str]) -> ScanTasks:
        """Returns the tasks of some of the files."""
        return ScanTasks({path: self._tasks[path] for path in paths})

    def data_files(self, data_sequence_numbers: Mapping[str, int]) -> dict[str, ContentFile]:
        """Returns by path the `ContentFile` of each data file, by which any process can read the file.

        Args:
            data_sequence_numbers: by path; on format v3 they tell when rows were last updated.
        """
        return {
            path: replace(task.file, data_sequence_number=data_sequence_numbers[path])
            if task.file.first_row_id is not None
            else task.file
            for path, task in self._tasks.items()
        }

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yields of each data file its rows and its bytes."""
        return ((task.file.rows, task.file.bytes) for task in self._tasks.values())

    def in_java(self, jvm: Any) -> Any:
        """Returns a Java list of the tasks.

        Args:
            jvm: Spark's gateway to the JVM.
        """

        def run_of(numbered: tuple[int, _Task]) -> tuple[int, int]:
            number, task = numbered
            # of places that follow each other, each lies as far from its number as the next
            return id(task.listed), task.at - number

        together = jvm.java.util.ArrayList()
        tasks = sorted(self._tasks.values(), key=lambda task: (id(task.listed), task.at))
        for _, numbered in groupby(enumerate(tasks), key=run_of):
            run = [task for _, task in numbered]
            together.addAll(run[0].listed.subList(run[0].at, run[-1].at + 1))
        return together


def _entries(jvm: Any, specs: Any, tasks: Any) -> Iterator[dict[str, Any]]:
    """Yields Iceberg's JSON of the data file of each task in a Java list."""
    # the message in which a REST catalog lists tasks describes many of them at once
    messages = jvm.org.apache.iceberg.rest.responses
    for first in range(0, tasks.size(), AT_ONCE):
        some = tasks.subList(first, min(first + AT_ONCE, tasks.size()))
        # `withSpecsById` is public in Iceberg 1.11 and protected in 1.12, which py4j calls all the same
        message = messages.FetchScanTasksResponse.builder().withFileScanTasks(some).withSpecsById(specs).build()
        for task in json.loads(messages.FetchScanTasksResponseParser.toJson(message))["file-scan-tasks"]:
            yield task["data-file"]
