"""Two replicas of the built-in model behind Ray Serve: affinity, leaving, keys, and one killed under load."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets import ROOT

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="the extra ray is not installed: make ray")

from qanat import LLM, RequestOptions, SamplingParams  # noqa: E402 - Ray is not everywhere
from qanat.server.ray_serve.application import ENGINE, build  # noqa: E402
from qanat.server.ray_serve.engine import stats_in  # noqa: E402
from tests.server.http.serving import Client, Stream, eventually  # noqa: E402

APPLICATION = "qanat"
KEY = {"authorization": "Bearer the-key"}
QUESTIONS = [f"Please remember the word {word}." for word in (
    "apple", "bridge", "candle", "door", "engine", "forest", "garden", "harbour",
    "island", "jacket", "kettle", "lamp", "mirror", "needle", "orchard", "pencil",
)]  # fmt: skip


class RayClient(Client):
    """With the key on every request."""

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        return super().ask(method, path, body, {**KEY, **(headers or {})})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayClient]:
    from ray import serve

    keys = tmp_path_factory.mktemp("ray") / "keys"
    keys.write_text("the-key\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        arguments = {"api_key_file": str(keys), "replicas": 2, "backend": "reference", "max_batch": 4}
        serve.run(build(arguments), name=APPLICATION, route_prefix="/")
        client = RayClient(port)
        eventually(lambda: client.ask("GET", "/health")[0] == 200, 30)
        yield client
    finally:
        serve.shutdown()
        ray.shutdown()


def replicas() -> list[int]:
    """Processes of engines that descend from this one."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if f"ServeReplica:{APPLICATION}:{ENGINE}" in (folder / "cmdline").read_text() and _is_ours(
                folder
            ):
                found.append(int(folder.name))
    return found


def _is_ours(folder: Path) -> bool:
    while folder.name not in ("0", "1"):
        if folder.name == str(os.getpid()):
            return True
        folder = folder.with_name((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return False


def chat(*messages: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)], **more}


def answered(server: RayClient, *messages: str, **more: Any) -> tuple[str, dict[str, Any]]:
    body = server.post("/v1/chat/completions", **chat(*messages, **more))
    return body["choices"][0]["message"]["content"], body["usage"]


def test_ray_understands_the_configuration_that_we_ship() -> None:
    from ray.serve.schema import ServeDeploySchema

    config = yaml.safe_load((ROOT / "deploy" / "ray_serve.yaml").read_text())
    [application] = ServeDeploySchema.model_validate(config).applications
    assert application.import_path == f"{build.__module__}:{build.__name__}"


def test_answers_are_those_of_the_model_without_ray(server: RayClient) -> None:
    llm = LLM("pocket", backend="reference", max_batch=1)
    for seed, question in enumerate(QUESTIONS[:4]):
        expected = llm.chat(
            [{"role": "user", "content": question}],
            SamplingParams(temperature=0.9, seed=seed, max_tokens=30),
        ).text
        options = {"temperature": 0.9, "top_k": 0, "top_p": 1, "seed": seed, "max_tokens": 30}
        assert answered(server, question, **options)[0] == expected
        with streaming(server, chat(question, **options)) as stream:
            said = [item["choices"][0]["delta"].get("content", "") for item in stream.objects()]
            assert "".join(said) == expected
            assert stream.done


def test_nobody_is_let_in_without_a_key_and_bad_requests_are_refused(server: RayClient) -> None:
    status, body, _ = Client(server.port).ask("POST", "/v1/chat/completions", chat("hi"))
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert Client(server.port).ask("GET", "/health")[0] == 200
    assert server.refused(400, "/v1/chat/completions", **chat("hi", nope=1))["param"] == "nope"
    assert (
        server.refused(400, "/v1/chat/completions", **chat("word " * 9000))["code"]
        == "context_length_exceeded"
    )
    assert server.refused(404, "/v1/chat/completions", **chat("hi", model="other"))
    assert server.ask("POST", "/v1/chat/completions", b"x" * (17 << 20))[0] == 413
    assert server.post("/tokenize", content="hello")["count"] == 1


def test_a_request_keeps_the_id_that_its_client_gave_it(server: RayClient) -> None:
    with contextlib.closing(server.connect()) as connection:
        connection.request("GET", "/health", headers={"x-request-id": "mine-7"})
        answer = connection.getresponse()
        # Ray's proxy adds it once more.
        assert {value for name, value in answer.getheaders() if name.lower() == "x-request-id"} == {"mine-7"}


def test_a_conversation_finds_its_prefix_and_conversations_are_spread(server: RayClient) -> None:
    from ray import serve

    llm = LLM("pocket", backend="reference", max_batch=1)
    before = finished(serve)
    found = 0
    for question in QUESTIONS:
        text, _ = answered(server, question, temperature=0)
        _, second = answered(server, question, text, "Which word was it?", temperature=0)
        found += second["prompt_tokens_details"]["cached_tokens"] == cached_here(llm, question, text)
    each = [after - start for after, start in zip(finished(serve), before, strict=True)]
    print(f"\nsecond turns that found their first: {found} of {len(QUESTIONS)}; requests by replica: {each}")
    assert found == len(QUESTIONS)
    assert sum(each) == 2 * len(QUESTIONS)
    assert min(each) >= 4  # at least two of 16 conversations


def cached_here(llm: LLM, question: str, text: str) -> int:
    """What one engine finds again at the second turn, where nobody else asks it."""
    own = RequestOptions(cache_salt=question)
    conversation = chat(question, text, "Which word was it?")["messages"]
    llm.chat(conversation[:1], SamplingParams.greedy(), options=own)
    cached = llm.chat(conversation, SamplingParams.greedy(), options=own).usage.cached_tokens
    assert cached > 10
    return cached


def finished(serve: Any) -> list[int]:
    found = serve.get_deployment_handle(ENGINE, APPLICATION).broadcast("stats").results(timeout_s=10)
    return [stats_in(data).finished for data in found]


def test_whoever_leaves_ends_the_request(server: RayClient) -> None:
    cancelled = server.metric("qanat_sequences_cancelled_total")
    body = chat("hi", ignore_eos=True, max_tokens=4000)
    with streaming(server, body) as stream:
        next(stream.objects())
        assert server.metric("qanat_sequences_running") == 1
    eventually(lambda: server.metric("qanat_sequences_running") == 0)
    assert server.metric("qanat_sequences_cancelled_total") == cancelled + 1


def test_a_replica_killed_under_load_takes_nobody_else_along_and_comes_back(server: RayClient) -> None:
    outcomes: Counter[str] = Counter()
    late: Counter[str] = Counter()
    killed, stop = threading.Event(), threading.Event()

    def client(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            body = chat(
                f"{number} {turn} {QUESTIONS[number % 16]}", ignore_eos=True, max_tokens=60, temperature=0
            )
            began_after = killed.is_set()
            how = outcome(server, body, stream=bool(number % 4))
            (late if began_after else outcomes)[how] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    victim, *_ = replicas()
    os.kill(victim, signal.SIGKILL)
    killed.set()
    time.sleep(6)
    stop.set()
    for thread in threads:
        thread.join(60)
    print(f"\nbegun before the kill: {dict(outcomes)}; after: {dict(late)}")
    assert not any(thread.is_alive() for thread in threads), "a request hangs"
    allowed = {"answered", "error event engine_dead", "503 engine_dead", "503 loading", "429 queue_full"}
    assert set(outcomes) | set(late) <= allowed
    assert outcomes["error event engine_dead"], "nobody was streaming from the victim: the test shows nothing"
    assert late["answered"] > 20
    eventually(lambda: len(replicas()) == 2 and victim not in replicas(), 60)
    eventually(lambda: both_answer(server), 60)
    eventually(lambda: server.metric("qanat_sequences_running") == 0, 30)
    assert server.metric("qanat_sequences_waiting") == 0


def test_without_any_replica_requests_are_refused_at_once_until_one_is_back(server: RayClient) -> None:
    for process in replicas():
        os.kill(process, signal.SIGKILL)
    eventually(lambda: server.ask("GET", "/health")[0] == 503, 10)
    began = time.monotonic()
    assert outcome(server, chat("hi", max_tokens=1), stream=False) == "503 loading"
    assert time.monotonic() - began < 1
    eventually(lambda: server.ask("GET", "/health")[0] == 200, 60)
    assert outcome(server, chat("hi", max_tokens=1), stream=False) == "answered"


def both_answer(server: RayClient) -> bool:
    from ray import serve

    for question in QUESTIONS:
        answered(server, question, max_tokens=1)
    return len(finished(serve)) == 2 and min(finished(serve)) > 0


@contextlib.contextmanager
def streaming(server: RayClient, body: dict[str, Any]) -> Iterator[Stream]:
    with contextlib.closing(server.connect(60)) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps({"stream": True, **body}), KEY)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        yield Stream(answer)


def outcome(server: RayClient, body: dict[str, Any], *, stream: bool) -> str:
    """How a request ended, in words."""
    with contextlib.closing(server.connect(60)) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, "stream": stream}), KEY)
        answer = connection.getresponse()
        if answer.status != 200:
            return f"{answer.status} {json.loads(answer.read())['error']['code']}"
        if not stream:
            return "answered" if json.loads(answer.read())["choices"] else "empty"
        events = Stream(answer)
        try:
            last = list(events.objects())[-1]
        except http.client.HTTPException as error:
            return f"broken: {error!r}"
        if events.done:
            return "answered"
        return f"error event {last['error']['code']}" if "error" in last else "cut off"
