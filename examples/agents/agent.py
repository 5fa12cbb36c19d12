#!/usr/bin/env python3
"""An agent in Python, standard library only: takes one task from a queue and does it in three steps. See README.md.

    agent.py NAME QUEUE
"""
import json
import os
import subprocess
import sys
import threading


def leasectl(*args, stdin=""):
    """Run leasectl; what it prints on stdout is returned, a failure ends this program with its exit code."""
    run = subprocess.run(["leasectl", *args], input=stdin, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)  # 5: another agent has the task by now
    return run.stdout.strip()


def keep_alive(session, closing):
    """The heartbeat: without a session another agent may have the task, so everything ends here."""
    while not closing.wait(1):
        if subprocess.run(["leasectl", "session", "keepalive", session], stdout=subprocess.DEVNULL).returncode != 0:
            os._exit(5)


def work(name, queue, session):
    task = json.loads(leasectl("jobs", "claim", queue, "--session", session, "--wait", os.environ.get("AGENT_WAIT", "30s"), "-o", "json"))
    proof = [task["ref"], "--token", task["token"], "--nonce", task["nonce"]]
    done = task.get("checkpoint", "").split()  # what an agent before us has done
    for step in range(len(done) + 1, 4):
        if os.environ.get("AGENT_HANG") == str(step):
            print(f"{name} hangs in step {step}", flush=True)
            threading.Event().wait()
        done.append(f"{step}:{name}")
        leasectl("jobs", "checkpoint", *proof, stdin=" ".join(done))
    leasectl("jobs", "complete", *proof, stdin=" ".join(done))
    print(name, "did", *done)


def main(name, queue):
    session = leasectl("session", "open", "--as", name, "--ttl", "5s")
    closing = threading.Event()
    heartbeat = threading.Thread(target=keep_alive, args=(session, closing), daemon=True)
    heartbeat.start()
    try:
        work(name, queue, session)
    finally:
        closing.set()
        heartbeat.join()
        leasectl("session", "close", session)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: agent.py NAME QUEUE")
    main(*sys.argv[1:])
