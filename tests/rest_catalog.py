"""REST catalogs inside the test's process: one of fixed answers, and one that another catalog stands behind."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyiceberg.catalog.rest import CommitTableRequest
from pyiceberg.exceptions import CommitFailedException


@contextmanager
def rest_server(answers, wait=0.0, post=lambda path, body: (405, b"")):
    """A REST catalog of answers by path, made anew where one is a function; a path without one is 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(wait if not self.path.startswith("/v1/config") else 0)
            found = answers.get(self.path.partition("?")[0], (404, error("NoSuchTableException", 404)))
            self.answer(*(found() if callable(found) else found))

        def do_POST(self):
            self.answer(*post(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def answer(self, status, body):
            text = json.dumps(body).encode() if not isinstance(body, bytes) else body
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def error(kind, code, message="no"):
    return {"error": {"message": message, "type": kind, "code": code}}


def config(**overrides):
    return 200, {"defaults": {}, "overrides": overrides}


def loaded(table, properties, vended):
    metadata = json.loads(table.metadata.model_dump_json())
    metadata["properties"] = {**metadata["properties"], **properties}
    return 200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": vended}


def beside_a_silent_one(topic):
    """The answers of a catalog with a topic, `db.t`, and a table that does not answer, `db.u`."""
    names = [{"namespace": ["db"], "name": name} for name in ("t", "u")]
    return {
        "/v1/config": config(),
        "/v1/namespaces": (200, {"namespaces": [["db"]]}),
        "/v1/namespaces/db/tables": (200, {"identifiers": names}),
        "/v1/namespaces/db/tables/t": loaded(topic, {}, {}),
        "/v1/namespaces/db/tables/u": (503, error("Busy", 503)),
    }


@contextmanager
def rest_over(catalog, name, meanwhile):
    """A REST catalog of one table, which lies in another catalog; that one holds to what a commit requires.

    Args:
        catalog: the other one.
        name: the table's there and here.
        meanwhile: called before each commit that comes.

    Yields:
        The address, and the commits that came: their required things by name, and the answer's status.
    """
    came = []

    def commit(_, body):
        asked = CommitTableRequest.model_validate_json(body)
        meanwhile(len(came))
        try:
            catalog.commit_table(catalog.load_table(name), asked.requirements, asked.updates)
            status, answer = loaded(catalog.load_table(name), {}, {})
        except CommitFailedException as conflict:
            status, answer = 409, error("CommitFailedException", 409, str(conflict))
        came.append(([required.type for required in asked.requirements], status))
        return status, answer

    namespace, table = name.split(".")
    answers = {
        "/v1/config": config(),
        "/v1/namespaces": (200, {"namespaces": [[namespace]]}),
        f"/v1/namespaces/{namespace}/tables/{table}": lambda: loaded(catalog.load_table(name), {}, {}),
    }
    with rest_server(answers, post=commit) as uri:
        yield uri, came
