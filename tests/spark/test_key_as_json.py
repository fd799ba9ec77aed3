"""A key of several columns as the text that the gate compares: equal exactly when all columns are."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product

import pytest
from hardpack.spark.columns import key_as_json

pytestmark = pytest.mark.spark
NOON = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
VALUES = {
    "string": ["", "-", "1:a", "a", "a-", "é", None],
    "binary": [b"", b"\xff", b"\xff\xfe", b"a", None],
    "long": [-1, 0, 1, 10, 2**63 - 1, None],
    "date": [date(1, 1, 1), date(2026, 1, 1), None],
    "decimal(9,2)": [Decimal("-0.10"), Decimal("0.10"), Decimal("1.00"), None],
    # an hour later a clock in Berlin shows the same time
    "timestamp": [NOON, NOON + timedelta(hours=1), NOON + timedelta(microseconds=1), None],
    "timestamp_ntz": [datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=1), None],
}


@pytest.mark.parametrize(("one", "other"), [("string", kind) for kind in VALUES] + [("binary", "string")])
def test_two_keys_have_one_text_exactly_when_all_their_columns_are_equal(spark, one, other):
    keys = list(product(VALUES[one], VALUES[other]))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = spark.createDataFrame(keys, f"k0 {one}, k1 {other}")
        texts = [r.k for r in rows.select(key_as_json([rows["k0"], rows["k1"]]).alias("k")).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert len(set(texts)) == len(keys)
    assert [text is None for text in texts] == [all(v is None for v in key) for key in keys]
