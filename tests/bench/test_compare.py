"""Comparing engines: each side has its turn in every round, and ratios are those of a round."""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.rounds import Row, measure_loads, measure_row, ratio, ratios
from benchmarks.peers.worker import Worker, WorkerError

SCRIPT = """
import sys
sys.path.insert(0, {peers!r})
from side import serve

class Fake:
    def load(self): print("noise of a library"); return {{"bytes": 7, "version": "0"}}
    def first(self): self.load()
    def prepare(self, count, context, room): self.room = count * room
    def read(self, tokens): assert tokens <= self.room
    def decode(self, steps): raise SystemExit("the engine broke")

serve(Fake())
"""


class Fake:
    """A side that takes the seconds it is told, and notes what it was asked in a list of all sides."""

    def __init__(self, name: str, seconds: list[float], log: list[str]) -> None:
        self.name, self.seconds, self.log = name, cycle(seconds), log
        self.closed = False

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.log.append(f"{self.name} {do} {sorted(arguments.items())}")
        if do == "peak":
            return {"bytes": 5}
        return {"seconds": next(self.seconds)} if do != "prepare" else {}

    def close(self) -> None:
        self.closed = True


def test_sides_take_turns_and_the_first_round_is_forgotten() -> None:
    log: list[str] = []
    sides = {"a": Fake("a", [99, 1, 2, 3], log), "b": Fake("b", [99, 4, 5, 6], log)}
    taken = measure_row(Row(16, count=8, context=32), sides, 3, lambda: log.append("ceilings"))
    assert taken == {"a": [1, 2, 3], "b": [4, 5, 6]}
    state = [("context", 32), ("count", 8), ("room", 64)]
    assert log[:2] == [f"a prepare {state}", f"b prepare {state}"]
    turns = [line.split(" [")[0] for line in log[2:]]
    assert turns == ["a decode", "b decode", *["ceilings", "a decode", "b decode"] * 3]


def test_a_prompt_is_read_from_nothing_every_time() -> None:
    log: list[str] = []
    measure_row(Row(512, at_once=True), {"a": Fake("a", [1.0], log)}, 2)
    state = [("context", 0), ("count", 1), ("room", 512)]
    assert log == [f"a prepare {state}", "a read [('tokens', 512)]"] * 3


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    # The machine was ten times slower in the second round, for both.
    assert ratio([1, 10, 1], [2, 30, 2.5]) == 2.5
    taken = {"qanat-int8": [1.0, 2.0, 4.0], "llama-q8_0": [2.0, 4.0, 8.0], "other": [1.0, 1.0, 1.0]}
    assert ratios(taken) == {"qanat-int8 / llama-q8_0": 2.0}


def test_rates_count_the_tokens_of_all_sequences() -> None:
    assert Row(16).all_tokens == 16
    assert Row(16, count=8).all_tokens == 128


def test_every_start_is_a_process_of_its_own_and_ends() -> None:
    made: list[Fake] = []

    def start() -> Fake:
        made.append(Fake("a", [float(len(made))], []))
        return made[-1]

    assert measure_loads({"a": start}, 2) == {"a": ([1.0, 2.0], [5, 5])}
    assert len(made) == 3
    assert all(fake.closed for fake in made)


@pytest.fixture
def worker() -> Any:
    peers = str(Path(__file__).resolve().parents[2] / "benchmarks" / "peers")
    worker = Worker([sys.executable, "-c", SCRIPT.format(peers=peers)])
    yield worker
    worker.close()


def test_a_process_answers_what_it_measured_whatever_its_libraries_print(worker: Worker) -> None:
    assert worker.ask("load") == {"bytes": 7, "version": "0"}
    assert worker.ask("prepare", count=2, context=0, room=8) == {}
    assert 0 <= worker.ask("read", tokens=16)["seconds"] < 1
    assert worker.ask("peak")["bytes"] > 1e6


def test_a_side_that_breaks_is_an_error_and_no_endless_wait(worker: Worker) -> None:
    with pytest.raises(WorkerError, match="decode"):
        worker.ask("decode", steps=1)
