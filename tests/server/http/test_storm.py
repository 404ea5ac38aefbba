"""Under a load of clients that come and leave nothing is lost or left behind, whatever ends the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.server.bodies import ask
from tests.server.http.load import health_watched, load, nothing_served, percentile
from tests.server.http.serving import Program, eventually, program

CHAT = "/v1/chat/completions"
STORY: dict[str, Any] = {"messages": ask("Tell me a story."), "ignore_eos": True, "temperature": 1}


def open_files(number: int) -> int:
    return len(list(Path(f"/proc/{number}/fd").iterdir()))


def resident(number: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processes(server: Program) -> list[int]:
    return [server.process.pid, *server.children()]


def assert_quiet(server: Program) -> None:
    """Nothing is under way, and only snapshots own memory."""
    for name in ("requests_inside", "sequences_running", "sequences_waiting", "pages_held"):
        eventually(lambda name=name: server.metric(f"qanat_{name}") == 0, seconds=30)
    assert server.metric("qanat_sequences_failed_total") == 0


@pytest.mark.parametrize(
    ("clients", "seconds"), [(24, 3), pytest.param(64, 60, marks=pytest.mark.proof)], ids=["short", "long"]
)
def test_clients_that_come_and_leave_leave_nothing_behind(clients: int, seconds: int) -> None:
    waiting = clients // 2 - 8
    with program("--max-batch", "8", "--max-waiting", str(waiting)) as server:
        asyncio.run(load(server.port, clients=clients, seconds=2))  # all that is made once is made
        assert_quiet(server)
        both = processes(server)
        files, memory = [open_files(n) for n in both], [resident(n) for n in both]
        finished = server.metric("qanat_sequences_finished_total")
        with (
            nothing_served() as nothing,
            health_watched(nothing, seconds) as control,
            health_watched(server.port, seconds) as health,
        ):
            found = asyncio.run(load(server.port, clients=clients, seconds=seconds, seed=2))
        assert not found.errors, found.errors[:5]
        for kind in ("answered", "refused", "left early", "left late"):
            assert found.counts[kind] > 0, found.counts
        assert_quiet(server)
        # Who left had asked for far more than they read: were one not cancelled, it would finish in the end.
        assert server.metric("qanat_sequences_finished_total") - finished == found.counts["answered"]
        assert processes(server) == both
        for number, before in zip(both, files, strict=True):
            eventually(lambda number=number, before=before: open_files(number) <= before)
        grown = [resident(n) - before for n, before in zip(both, memory, strict=True)]
        slowest, machine = percentile(health, 0.99), percentile(control, 0.99)
        told = f"99 of 100 within {slowest:.4f} s; of a server that does nothing within {machine:.4f} s"
        print(f"{dict(found.counts)}; grown {[g >> 20 for g in grown]} MiB; health: {told}")
        assert max(grown) < 48 << 20, grown
        assert len(health) > 10 * seconds
        if seconds >= 60:  # a short one is one hiccup of the machine long
            assert slowest < 0.1, told
        assert server.stop()[0] == 0


def streams(server: Program, number: int, **fields: Any) -> tuple[list[threading.Thread], list[Any]]:
    """So many clients that stream; each adds how it ended: the last object, and whether [DONE] came."""
    ends: list[Any] = []

    def one() -> None:
        with server.streaming(CHAT, **{**STORY, **fields}) as stream:
            *_, last = stream.objects()
            ends.append((last, stream.done))

    threads = [threading.Thread(target=one, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    eventually(lambda: server.metric("qanat_requests_inside") == number)
    eventually(lambda: server.metric("qanat_sequences_waiting") > 0)
    return threads, ends


def test_told_to_stop_under_load_it_loses_nobody_whom_it_took() -> None:
    with program("--max-batch", "8", "--max-waiting", "64", "--drain", "60") as server:
        threads, ends = streams(server, 24, max_tokens=300)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.ask("GET", "/health")[0] == 503)
        assert server.refused(503, CHAT, messages=ask())["code"] == "stopping"
        for thread in threads:
            thread.join(60)
        assert [(last["choices"][0]["finish_reason"], done) for last, done in ends] == [("length", True)] * 24
        assert server.process.wait(20) == 0
        assert time.monotonic() - begin < 60


@pytest.mark.parametrize("restart", [False, True])
def test_when_the_engine_is_killed_under_load_every_client_is_told(restart: bool) -> None:
    options = ["--restart-engine"] if restart else []
    with program("--max-batch", "8", "--max-waiting", "64", *options) as server:
        threads, ends = streams(server, 8 + 1, max_tokens=3000)
        [child] = server.children()
        os.kill(child, signal.SIGKILL)
        eventually(lambda: not any(thread.is_alive() for thread in threads), seconds=30)
        # Who waited in the queue was answered 200 too, and is told in the same way.
        assert [(last["error"]["code"], done) for last, done in ends] == [("engine_dead", False)] * 9
        eventually(lambda: server.ask("GET", "/health")[0] == (200 if restart else 503), seconds=30)
        assert server.metric("qanat_requests_inside") == 0
        if restart:
            assert server.post(CHAT, messages=ask(), max_tokens=3)["choices"]
        else:
            assert server.refused(503, CHAT, messages=ask())["code"] == "engine_dead"
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 0)
            pytest.fail("the dead engine is still there")
