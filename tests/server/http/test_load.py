"""The load that storms are made of: clients that do as they are told, and outcomes that add up."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.server.http.fakes import FakeEngine
from tests.server.http.load import Outcomes, _events, load
from tests.server.http.serving import served


def test_who_is_sent_away_comes_again_when_the_server_said() -> None:
    with served(FakeEngine(), most_requests=0) as client:
        found = asyncio.run(load(client.port, clients=20, seconds=1.5))
    assert not found.errors
    assert 20 <= found.counts["refused"] <= 40, "at once, and after a second"
    assert found.took < 2


@pytest.mark.parametrize(("leave_at", "outcome"), [(1, "left late"), (2, "answered"), (3, "answered")])
def test_nobody_has_left_an_answer_that_had_ended(leave_at: int, outcome: str) -> None:
    async def main() -> Outcomes:
        reader, found = asyncio.StreamReader(), Outcomes()
        for choices, usage in (
            ([{"finish_reason": None}], None),
            ([{"finish_reason": "length"}], None),
            ([], {"completion_tokens": 3000}),
        ):
            reader.feed_data(b"data: %b\n\n" % json.dumps({"choices": choices, "usage": usage}).encode())
        reader.feed_data(b"data: [DONE]\n\n")
        await _events(reader, found, 0.0, leave_at)
        return found

    assert asyncio.run(main()).counts == {outcome: 1}
