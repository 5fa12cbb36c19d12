#!/usr/bin/env python3
"""A worker in Python, standard library only: claims one job after the other and upper-cases its payload.

    worker.py QUEUE

It ends when nothing was claimable for 5 seconds. leasectl work runs commands and does all of this for them; this shows
the steps, for a program that wants to stay one process, or for a language of your own.
"""
import base64
import json
import subprocess
import sys
import threading

NOTHING_CLAIMABLE = 3
STALE_TOKEN = 5


def leasectl(*args, stdin=b""):
    """Run leasectl and return its exit code and what it printed."""
    done = subprocess.run(["leasectl", *args], input=stdin, stdout=subprocess.PIPE)
    return done.returncode, done.stdout


class Session:
    """Keeps a session alive until it is closed, and says when it is lost."""

    def __init__(self, name, ttl=15):
        code, out = leasectl("session", "open", "--as", name, "--ttl", f"{ttl}s", "-o", "json")
        if code != 0:
            sys.exit(code)
        opened = json.loads(out)
        self.id, self.ttl = opened["session"], opened["ttl"]
        self.lost, self.closing = threading.Event(), threading.Event()
        self.heartbeat = threading.Thread(target=self._beat, daemon=True)
        self.heartbeat.start()

    def _beat(self):
        while not self.closing.wait(self.ttl / 4):
            if leasectl("session", "keepalive", self.id)[0] != 0:
                self.lost.set()  # others may take over what we claimed: stop
                return

    def close(self):
        self.closing.set()
        self.heartbeat.join()
        leasectl("session", "close", self.id)


def handle(payload):
    """The work itself. Give claim["idempotency_key"] to services that know such keys."""
    return payload.upper()


def main(queue):
    session = Session("python")
    try:
        while not session.lost.is_set():
            code, out = leasectl("jobs", "claim", queue, "--session", session.id, "--wait", "5s", "-o", "json")
            if code == NOTHING_CLAIMABLE:
                return 0
            if code != 0:
                return code
            claim = json.loads(out)
            proof = [claim["ref"], "--token", claim["token"], "--nonce", claim["nonce"]]
            payload = base64.b64decode(claim["payload_base64"]) if "payload_base64" in claim else claim["payload"].encode()
            try:
                result = handle(payload)
            except Exception as error:
                code, _ = leasectl("jobs", "fail", *proof, "--error", str(error)[:500])
            else:
                code, _ = leasectl("jobs", "complete", *proof, stdin=result)
            if code == STALE_TOKEN:
                print(f"{claim['id']}: somebody else owns it by now", file=sys.stderr)
            elif code != 0:
                return code  # leasectl has told why
        return 1
    finally:
        session.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: worker.py QUEUE")
    sys.exit(main(sys.argv[1]))
