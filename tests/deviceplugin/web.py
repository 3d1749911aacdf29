"""The platform's side of the completion report, over real HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Web:
    """Answers each report with the next of `codes` (then 204), and keeps what it was sent."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.reports: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                web.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                web.headers.append(dict(self.headers))
                web.paths.append(self.path)
                self.send_response(web.codes.pop(0) if web.codes else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler
