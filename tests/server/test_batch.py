"""Batch files: every line gets the result that it would get alone, and no bad line stops the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.engine import LLM
from qanat.errors import NumericalError, RequestError
from qanat.server.batch_lines import BatchLine, read_lines
from qanat.server.batch_run import answer_lines
from tests.server.bodies import VALUES, ask

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def request(custom_id: str, url: str = CHAT, **body: Any) -> dict[str, Any]:
    body = body or {"messages": ask()}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"max_tokens": 6, **body}}


def lines_of(*requests: Any, seed: int = 0, options: str = "") -> list[BatchLine]:
    data = b"\n".join(r if isinstance(r, bytes) else json.dumps(r).encode() for r in requests)
    return read_lines(data, where="in.jsonl", options=lambda: options, seed=seed)


def answers(llm: LLM, lines: list[BatchLine], room: int = 4) -> dict[str | None, dict[str, Any]]:
    results = list(answer_lines(llm, lines, names=["pocket"], room=room))
    assert len(results) == len(lines)
    return {result["custom_id"]: timeless(result) for result in results}


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what differs between two runs: the time, what was cached, and the ids of calls."""
    body = (result["response"] or {}).get("body", {})
    body.pop("created", None)
    body.get("usage", {}).pop("prompt_tokens_details", None)
    return json.loads(re.sub(r"call_[0-9a-f]{24}", "call", json.dumps(result)))


MIXED = [
    request("a"),
    request("b", messages=ask("Who are you?"), temperature=1.2),
    request("c", TEXT, prompt=["Hello", "My name"], n=3, temperature=1.2),
    request("d", TEXT, prompt="Hello", seed=5, temperature=1.2),
    request("e", TEXT, prompt=[5, 6], echo=True),
    *(request(f"f{i}", messages=ask(f"spell {i}"), temperature=1.0, max_tokens=1 + i % 7) for i in range(12)),
]


def test_a_line_gets_the_same_result_alone_in_a_crowd_and_in_another_order(llm: LLM) -> None:
    crowd = answers(llm, lines_of(*MIXED))
    assert answers(llm, lines_of(*reversed(MIXED)), room=100) == crowd
    alone = {k: v for r in MIXED for k, v in answers(llm, lines_of(r), room=1).items()}
    assert alone == crowd
    assert all(result["response"]["status_code"] == 200 for result in crowd.values())
    assert len(crowd["c"]["response"]["body"]["choices"]) == 6
    assert len({result["id"] for result in crowd.values()}) == len(MIXED)


def test_a_seed_is_made_of_the_number_and_the_custom_id_unless_the_request_has_one(llm: LLM) -> None:
    drawn = {"messages": ask("Tell me a story"), "temperature": 2.0, "max_tokens": 12}
    requests = [
        request("a", **drawn),
        request("b", **drawn),
        request("c", **drawn, seed=5),
        request("d", **drawn, seed=5),
    ]

    def texts(seed: int) -> dict[str | None, str]:
        found = answers(llm, lines_of(*requests, seed=seed))
        return {k: v["response"]["body"]["choices"][0]["message"]["content"] for k, v in found.items()}

    first, second = texts(0), texts(1)
    assert first["a"] != first["b"]
    assert first["c"] == first["d"] == second["c"]
    assert first["a"] != second["a"]
    assert texts(0) == first


BAD: list[tuple[Any, int | None, str]] = [
    (b"{", None, "invalid_json_line"),
    (b"[1]", None, "invalid_request"),
    (b"\xff", None, "invalid_json_line"),
    (b'{"custom_id": "x", "custom_id": "x"}', None, "invalid_json_line"),
    (b'{"custom_id": NaN}', None, "invalid_json_line"),
    (b"[" * 100_000, None, "invalid_json_line"),
    ({"method": "POST", "url": CHAT, "body": {}}, None, "missing_required_parameter"),
    ({**request("x"), "custom_id": 5}, None, "invalid_request"),
    ({**request("x"), "custom_id": ""}, None, "invalid_request"),
    ({**request("x"), "custom_id": "x" * 513}, None, "invalid_request"),
    ({**request("x"), "method": "GET"}, None, "invalid_method"),
    ({**request("x"), "url": "/v1/embeddings"}, None, "invalid_url"),
    ({**request("x"), "priority": 1}, None, "unknown_parameter"),
    ({"custom_id": "x", "method": "POST", "url": CHAT}, None, "missing_required_parameter"),
    (request("x", messages=ask(), stream=True), 400, "stream"),
    (request("x", messages=ask(), mood=1), 400, "mood"),
    (request("x", messages=[]), 400, "messages"),
    ({**request("x"), "body": []}, 400, "object"),
    (request("x", messages=ask("a " * 5000)), 400, "context"),
    (request("x", messages=ask(), model="gpt-4o"), 404, "gpt-4o"),
    (request("x", TEXT, prompt=""), 400, "empty"),
]


def test_a_bad_line_gets_an_error_and_the_others_their_answers(llm: LLM) -> None:
    for number, (bad, status, word) in enumerate(BAD):
        results = list(answer_lines(llm, lines_of(request("a"), bad, request("b")), names=["pocket"], room=4))
        [result] = [r for r in results if r["custom_id"] not in ("a", "b")]
        assert {r["custom_id"] for r in results if r is not result} == {"a", "b"}
        if status is None:
            assert (result["response"], result["error"]["code"]) == (None, word), number
            assert "line 2" in result["error"]["message"]
        else:
            assert (result["response"]["status_code"], result["error"]) == (status, None), number
            assert word in result["response"]["body"]["error"]["message"]


@settings(max_examples=100, deadline=None)
@given(line=VALUES | st.fixed_dictionaries(dict.fromkeys(request("x"), VALUES)))
def test_any_line_gets_a_result(pocket: LLM, line: Any) -> None:
    [result] = answer_lines(pocket, lines_of(line), names=["pocket"], room=1)
    assert (result["response"] is None) != (result["error"] is None)
    json.dumps(result, allow_nan=False)


def test_two_lines_with_one_custom_id_are_refused_with_both_numbers() -> None:
    with pytest.raises(RequestError, match=r"in.jsonl: lines 2 and 4 have the same custom_id 'x'"):
        lines_of(request("a"), request("x"), b"", request("x", TEXT, prompt="other"))


def test_blank_lines_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    plain = lines_of(request("a"), request("b"))
    [one, two] = (json.dumps(request(name)).encode() for name in "ab")
    windows = read_lines(b"\xef\xbb\xbf" + one + b"\r\n\r\n" + two + b"\r\n", where="", options=str, seed=0)
    assert [(line.custom_id, line.digest) for line in windows] == [
        (line.custom_id, line.digest) for line in plain
    ]
    assert [line.number for line in windows] == [1, 3]


def test_a_result_knows_its_request_and_what_decides_it() -> None:
    def ids(*requests: Any, **more: Any) -> list[str]:
        return [line.result_id for line in lines_of(*requests, **more)]

    one, two = request("a"), request("b")
    assert ids(one, two) == ids(two, one)[::-1]
    assert (
        len(
            {
                *ids(one),
                *ids(two),
                *ids(request("a", messages=ask("other"))),
                *ids(one, seed=1),
                *ids(one, options="x"),
            }
        )
        == 5
    )
    broken = ids(b"{", b"{")
    assert broken[0] != broken[1]  # known by their places


def test_leaving_early_frees_everything(llm: LLM) -> None:
    results = answer_lines(llm, lines_of(*MIXED), names=["pocket"], room=4)
    next(results)
    assert not llm.idle
    with pytest.raises(KeyboardInterrupt) as caught:
        results.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
    assert llm.idle
    assert caught.traceback  # it holds on to all that was under way


def test_lines_that_another_ones_numbers_took_along_are_answered(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits that are not finite end a whole step, with all sequences in it."""
    expected = answers(llm, lines_of(*MIXED))
    sample = llm._scheduler._model.ops.sample
    poison = llm.tokenizer.encode("zebra")

    def poisoned(logits: Any, rows: Any, live: int) -> Any:
        if any(list(row.prompt[: len(poison)]) == poison for row in rows):
            raise NumericalError("the logits are not finite")
        return sample(logits, rows, live)

    monkeypatch.setattr(llm._scheduler._model.ops, "sample", poisoned)
    found = answers(llm, lines_of(*MIXED[:2], request("z", TEXT, prompt="zebra"), *MIXED[2:]))
    assert found.pop("z")["response"]["status_code"] == 500
    assert found == expected


def test_the_room_is_used_and_not_exceeded(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    decoding: list[int] = []  # of steps that read no prompt
    forward = llm._scheduler._model.forward

    def watched(batch: Any, state: Any) -> Any:
        sizes.append(batch.size)
        if len(batch.tokens) == batch.size:
            decoding.append(batch.size)
        return forward(batch, state)

    monkeypatch.setattr(llm._scheduler._model, "forward", watched)
    body = {"messages": ask(), "max_tokens": 20, "ignore_eos": True}
    results: Iterator[Any] = answer_lines(
        llm, lines_of(*(request(str(i), **body) for i in range(8))), names=["pocket"], room=2
    )
    list(results)
    assert max(sizes) == 2
    assert len(decoding) >= 70
    assert sum(decoding) / len(decoding) > 1.9
