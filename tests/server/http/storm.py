"""Many clients at once, some of which leave."""

from __future__ import annotations

import json
import threading
import time

from tests.server.bodies import ask
from tests.server.client import joined_chat
from tests.server.http.serving import Client

CHAT = "/v1/chat/completions"
STORY = {"messages": ask("Tell me a story about a fox."), "temperature": 1.0, "ignore_eos": True}


def storm(client: Client) -> None:
    """32 streams at once; a fifth leave, some before the first word, some later. The others are whole."""
    alone = client.stream(CHAT, **STORY, seed=7, max_tokens=40)
    texts: dict[int, str] = {}

    def one(number: int) -> None:
        leaves = number % 5 == 0
        fields = {**STORY, "seed": 7, "max_tokens": 3000 if leaves else 40}
        if leaves and number % 10 == 0:  # waits in the queue, or reads a long prompt
            fields["messages"] = ask("fox " * 900 + str(number))
            connection = client.connect()
            connection.request("POST", CHAT, json.dumps({**fields, "stream": number % 20 == 0}))
            time.sleep(0.1)
            connection.close()
            return
        with client.streaming(CHAT, **fields) as stream:
            objects = []
            for item in stream.objects():
                objects.append(item)
                if leaves and len(objects) == 5:
                    return
            assert stream.done
        texts[number] = joined_chat(objects)[0]["message"]["content"]

    threads = [threading.Thread(target=one, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 25
    assert set(texts.values()) == {joined_chat(alone)[0]["message"]["content"]}
