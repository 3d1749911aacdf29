"""An extender that decides nothing: the bar that ours is held to, since kube-scheduler's calls to any extender are
serial.

`python -m tests.perf.whole_path.do_nothing PORT API_PORT CA CERTIFICATE KEY`. /filter takes every node, /prioritize
gives each 1, /bind sends a bare Binding. Must not know: the product.
"""

from __future__ import annotations

import http.server
import json
import socketserver
import sys
from pathlib import Path
from typing import Any

from tests.cluster import certificates, kube


class Extender(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves kube-scheduler's three calls."""

    daemon_threads = True
    request_queue_size = 256  # a burst of binds opens a hundred connections

    def __init__(self, port: int, api: kube.Kube) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.api = api


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer: unbuffered, each would wait 40 ms for an acknowledgement
    disable_nagle_algorithm = True
    server: Extender

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"/filter": _filter, "/prioritize": _prioritize, "/bind": self._bind}[self.path](body)
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _bind(self, body: dict[str, Any]) -> dict[str, str]:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": body["PodName"], "namespace": body["PodNamespace"], "uid": body["PodUID"]},
            "target": {"kind": "Node", "name": body["Node"]},
        }
        self.server.api.create(f"{kube.pod_path(body['PodNamespace'], body['PodName'])}/binding", binding)
        return {"Error": ""}

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing for each call."""


def _filter(body: dict[str, Any]) -> dict[str, Any]:
    return {"NodeNames": body["NodeNames"]}


def _prioritize(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"Host": name, "Score": 1} for name in body["NodeNames"]]


def main(port: str, api_port: str, authority: str, certificate: str, key: str) -> None:
    """Serve until killed."""
    pair = certificates.Pair(Path(certificate), Path(key))
    with Extender(int(port), kube.Kube(int(api_port), authority, pair)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
