"""Figures for Prometheus: ours, and the same by the names that routers look for."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.server.bodies import ask
from tests.server.http.serving import Program

TEXT = "/v1/completions"


def figures(server: Program) -> dict[str, float]:
    """Each sample by its name and labels, as they are written."""
    status, text, _ = server.ask("GET", "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_routers_find_what_they_look_for_by_the_models_name(server: Program) -> None:
    server.post(TEXT, prompt="Once upon a time", max_tokens=9, ignore_eos=True, n=2)
    found = figures(server)
    label = '{model_name="tiny/pocket"}'
    for theirs, ours in (
        ("num_requests_running", "sequences_running"),
        ("num_requests_waiting", "sequences_waiting"),
        ("generation_tokens_total", "output_tokens_total"),
        ("prefix_cache_hits_total", "cached_tokens_total"),
        ("time_to_first_token_seconds_count", "first_token_seconds_count"),
        ("time_to_first_token_seconds_sum", "first_token_seconds_sum"),
        ("inter_token_latency_seconds_count", "next_token_seconds_count"),
        ("inter_token_latency_seconds_sum", "next_token_seconds_sum"),
    ):
        assert found[f"vllm:{theirs}{label}"] == found[f"qanat_{ours}"], theirs
    read = found["qanat_prompt_tokens_total"] + found["qanat_cached_tokens_total"]
    assert found[f"vllm:prefix_cache_queries_total{label}"] == read
    assert found[f"vllm:kv_cache_usage_perc{label}"] == 0, "what only snapshots own can be had"
    assert found["qanat_pages_free"] < found["qanat_pages"]


def test_tokens_are_timed_whether_they_are_streamed_or_not(server: Program) -> None:
    for stream in (False, True):
        before = figures(server)
        fields = {"prompt": "Once upon", "max_tokens": 9, "ignore_eos": True, "n": 2}
        if stream:
            server.stream(TEXT, **fields)
        else:
            server.post(TEXT, **fields)
        after = figures(server)
        for name, count in (("first_token_seconds", 2), ("next_token_seconds", 2 * 8)):
            assert after[f"qanat_{name}_count"] - before[f"qanat_{name}_count"] == count
            assert after[f'qanat_{name}_bucket{{le="+Inf"}}'] == after[f"qanat_{name}_count"]
            assert after[f"qanat_{name}_sum"] > before[f"qanat_{name}_sum"]
            bounds = [value for key, value in after.items() if key.startswith(f"qanat_{name}_bucket")]
            assert bounds == sorted(bounds)


def test_while_a_reply_is_computed_its_pages_are_in_use(server: Program) -> None:
    fields = {"messages": ask("Tell me a story."), "ignore_eos": True, "max_tokens": 3000}
    with server.streaming("/v1/chat/completions", **fields) as stream:
        objects = stream.objects()
        next(objects)
        next(objects)
        found = figures(server)
        label = '{model_name="tiny/pocket"}'
        assert found[f"vllm:num_requests_running{label}"] == 1
        assert 0 < found[f"vllm:kv_cache_usage_perc{label}"] < 1
