"""A receiver that refuses the first two calls: `python receiver.py 8099`.

Timeball sends the same `Idempotency-Key` with every attempt of a run, so that a receiver can recognise a repeated call.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

REFUSED = 2
calls: dict[str, int] = {}


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers["Idempotency-Key"]
        calls[key] = calls.get(key, 0) + 1
        self.send_response(503 if calls[key] <= REFUSED else 200)
        self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
