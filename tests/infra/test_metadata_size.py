"""What hardpack adds to a table's metadata, by the benchmark that measures it, on few logs; no JVM."""

import json

from tests.benchmarks import metadata_size


def test_a_log_takes_few_bytes_of_the_state(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["", "--logs", "50", "--segments", "100", "--passes", "10"])
    metadata_size.main()
    after = dict(next(iter(json.loads(line).items())) for line in capsys.readouterr().out.splitlines())
    assert after["after 10"]["of these the state"] < 50 * 600
    assert after["after 10"]["bytes of metadata.json"] < after["after 10"]["of these the state"] + 10 * 10_000
