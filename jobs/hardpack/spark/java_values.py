"""Java's collections as Python's: an iterator there ends with an exception, which takes 18 ms and more to arrive."""

from __future__ import annotations

import json
from typing import Any


def strings(jvm: Any, java_map: Any) -> dict[str, str]:
    """Returns a map from text to text.

    Args:
        jvm: Spark's gateway to the JVM.
        java_map: there.
    """
    return dict(json.loads(jvm.org.apache.iceberg.util.JsonUtil.mapper().writeValueAsString(java_map)))


def items(jvm: Any, iterable: Any) -> list[Any]:
    """Returns what can be iterated over.

    Args:
        jvm: Spark's gateway to the JVM.
        iterable: there.
    """
    listed = jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList(iterable)
    return [listed.get(at) for at in range(listed.size())]
