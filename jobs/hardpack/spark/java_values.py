"""Java's collections as Python's, without Java's iterators: each ends with an exception that takes 18 ms and more."""

from __future__ import annotations

import json
from typing import Any


def strings(jvm: Any, java_map: Any) -> dict[str, str]:
    """Returns a Java map from text to text.

    Args:
        jvm: Spark's gateway to the JVM.
        java_map: the map in the JVM.
    """
    return dict(json.loads(jvm.org.apache.iceberg.util.JsonUtil.mapper().writeValueAsString(java_map)))


def items(jvm: Any, iterable: Any) -> list[Any]:
    """Returns the elements of a Java `Iterable`.

    Args:
        jvm: Spark's gateway to the JVM.
        iterable: the `Iterable` in the JVM.
    """
    listed = jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList(iterable)
    return [listed.get(at) for at in range(listed.size())]
