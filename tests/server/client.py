"""What a client makes of a stream, and what every stream must keep to."""

from __future__ import annotations

from typing import Any


def joined_chat(objects: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Choices of a chat stream put together as OpenAI's clients do; the rules of the stream are asserted."""
    choices: dict[int, dict[str, Any]] = {}
    for item in objects:
        for part in item["choices"]:
            delta, index = part["delta"], part["index"]
            if index not in choices:
                assert delta == {"role": "assistant", "content": ""}, "the role comes first"
                choices[index] = {"message": {}, "finish_reason": None, "logprobs": None, "calls": []}
            else:
                assert "role" not in delta, "once"
                assert delta or part["finish_reason"], "nothing empty is sent"
                assert all(delta.values()), "nothing empty is sent"
            choice = choices[index]
            assert choice["finish_reason"] is None, "nothing follows the finish_reason"
            choice["finish_reason"] = part["finish_reason"]
            if part["logprobs"] is not None:
                choice["logprobs"] = (choice["logprobs"] or []) + part["logprobs"]["content"]
            for name in ("content", "reasoning_content"):
                choice["message"][name] = choice["message"].get(name, "") + delta.get(name, "")
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    assert call["index"] == len(choice["calls"])
                    assert call["function"]["arguments"] == ""
                    choice["calls"].append({k: v for k, v in call.items() if k != "index"})
                else:
                    assert set(call) == {"index", "function"}
                    choice["calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return choices


def joined_text(objects: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Choices of a completion stream put together."""
    choices: dict[int, dict[str, Any]] = {}
    for item in objects:
        for part in item["choices"]:
            choice = choices.setdefault(part["index"], {"text": "", "finish_reason": None, "logprobs": None})
            assert choice["finish_reason"] is None, "nothing follows the finish_reason"
            assert part["text"] or part["finish_reason"], "nothing empty is sent"
            choice["text"] += part["text"]
            choice["finish_reason"] = part["finish_reason"]
            if part["logprobs"] is not None:
                before = choice["logprobs"] or {name: [] for name in part["logprobs"]}
                choice["logprobs"] = {name: before[name] + part["logprobs"][name] for name in before}
    return choices
