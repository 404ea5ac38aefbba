"""Mutated files: each one loads or is refused with a typed error, quickly and within its own size."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint import ModelConfig, expected_tensors, load_checkpoint
from qanat.checkpoint.safetensors import SafetensorsFile, write_safetensors
from qanat.errors import QanatError, SafetensorsError
from tools.make_checkpoint import plan_checkpoint, write_checkpoint
from tools.published_sizes import published_config
from tools.tiny_models import text_config

QUICK, PROOF = 250, 20_000
SECONDS_EACH = 2.0

# Parsed JSON may take some 30 times the size of its text (a list in three characters); nothing may take more.
OVERHEAD, PER_BYTE = 300_000, 40

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    10**30,
    -(10**30),
    0.5,
    1e308,
    "",
    "x",
    "\x00",
    "\ud800",
    [],
    {},
    [[]],
    [0] * 100,
    {"a": {}},
    [2**62, 2**62],
    [2**40, 0],
    "F4",
    "F31",
    "a" * 5000,
    10**9,
    10**6,
    4096,
]
TEXT_BITS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"-",
        b"\\u0000",
        b"\\ud800",
        b"NaN",
        b"1e999",
        b"\xff",
        b"\0",
    ),
    *(b"\0", b"9" * 300, b"[" * 2000, b'"a":1,'),
]


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.randrange(1, 32)]
        elif kind == 4:
            data[at:at] = rng.choice(TEXT_BITS)
        else:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start : start + rng.randrange(1, 64)]
    return bytes(data)


def mutate_value(rng: random.Random, value: Any) -> Any:
    """Replace, remove, repeat or add something somewhere in parsed JSON."""
    if rng.random() < 0.25 or not isinstance(value, (dict, list)) or not value:
        if type(value) is int and rng.random() < 0.5:
            return value + rng.choice([-1, 1, 3, 4, -value, value, 2**32])
        return rng.choice(HOSTILE)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        copy = dict(value)
        kind = rng.random()
        if kind < 0.1:
            del copy[key]
        elif kind < 0.2:
            copy[rng.choice(["__metadata__", "x", "dtype", key + "x"])] = rng.choice(HOSTILE)
        else:
            copy[key] = mutate_value(rng, value[key])
        return copy
    at = rng.randrange(len(value))
    return [*value[:at], mutate_value(rng, value[at]), *value[at + 1 :]]


def within_bounds(size: int, action: Callable[[Path], bool], path: Path) -> bool:
    """The result of the action, which may neither take long nor allocate more than its file explains."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    start = time.monotonic()
    result = action(path)
    assert time.monotonic() - start < SECONDS_EACH
    peak = tracemalloc.get_traced_memory()[1] - before
    assert peak < OVERHEAD + PER_BYTE * size, f"{peak} bytes for a file of {size}"
    return result


def refused_well(error: QanatError) -> bool:
    """False for `not loaded`, and the message is one line of bounded length."""
    assert str(error).isprintable()
    assert len(str(error)) < 1000
    return False


def open_and_read(path: Path) -> bool:
    """Whether the file is sound; what opens must also read, or be refused by type."""
    try:
        with SafetensorsFile(path) as file:
            for name, entry in file.entries.items():
                try:
                    array = file.array(name)
                except SafetensorsError:
                    assert entry.dtype.startswith(("F4", "F6", "F8_E8", "C64", "F8_E4M3F", "F8_E5M2F"))
                    continue
                assert array.shape == entry.shape
                array.tobytes()
            return True
    except SafetensorsError as error:
        return refused_well(error)


def fuzz_safetensors(folder: Path, count: int) -> None:
    rng = random.Random(1)
    path = folder / "x.safetensors"
    sound = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.ones(3, np.int8),
        "c": np.zeros((0, 2)),
    }
    write_safetensors(path, sound, {"format": "pt"})
    original = path.read_bytes()
    length = int.from_bytes(original[:8], "little")
    header, data = json.loads(original[8 : 8 + length]), original[8 + length :]
    loaded = 0
    for _ in range(count):
        if rng.random() < 0.5:
            mutated = mutate_bytes(rng, original)
        else:
            changed: Any = header
            for _ in range(rng.choice([1, 1, 2, 3])):
                changed = mutate_value(rng, changed)
            text = json.dumps(changed).encode()
            if rng.random() < 0.3:
                text = mutate_bytes(rng, text)
            mutated = len(text).to_bytes(8, "little") + text + data
        path.write_bytes(mutated)
        loaded += within_bounds(len(mutated), open_and_read, path)
    assert 0 < loaded < count  # the mutations reach both ends


def parse(path: Path) -> bool:
    try:
        config = ModelConfig.from_file(path)
    except QanatError as error:
        return refused_well(error)
    text = config.text
    assert text.num_parameters > 0
    assert text.kv_bytes_per_token >= 0
    assert text.recurrent_state_bytes >= 0
    return True


def fuzz_config(folder: Path, count: int) -> None:
    rng = random.Random(2)
    path = folder / "config.json"
    originals = [text_config(), text_config(moe=True), published_config("0.8B"), published_config("35B-A3B")]
    loaded = 0
    for _ in range(count):
        changed: Any = rng.choice(originals)
        for _ in range(rng.choice([1, 1, 2, 3])):
            changed = mutate_value(rng, changed)
        data = json.dumps(changed).encode()
        if rng.random() < 0.3:
            data = mutate_bytes(rng, data)
        path.write_bytes(data)
        loaded += within_bounds(len(data), parse, path)
    assert 0 < loaded < count


def load_folder(path: Path) -> bool:
    try:
        checkpoint = load_checkpoint(path.parent)
    except QanatError as error:
        return refused_well(error)
    return bool(checkpoint.tensors)


def fuzz_small_files(folder: Path, count: int) -> None:
    """Mutate each JSON file of a sharded checkpoint in turn; the others stay sound."""
    rng = random.Random(4)
    write_checkpoint(plan_checkpoint("tiny", shard_bytes=500_000), folder, quiet=True)
    for name in ("generation_config.json", "tokenizer_config.json", "model.safetensors.index.json"):
        path = folder / name
        original = json.loads(path.read_text()) if path.is_file() else {"eos_token_id": [3, 4]}
        loaded = 0
        for _ in range(count):
            data = json.dumps(mutate_value(rng, original)).encode()
            path.write_bytes(mutate_bytes(rng, data) if rng.random() < 0.3 else data)
            loaded += within_bounds(len(data) + 200_000, load_folder, path)
        assert loaded < count
        path.write_text(json.dumps(original))
        assert load_folder(path)


@pytest.fixture
def traced() -> Any:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
class TestFuzz:
    def test_mutated_safetensors_load_or_are_refused(self, tmp_path: Path) -> None:
        fuzz_safetensors(tmp_path, QUICK)

    def test_mutated_configs_load_or_are_refused(self, tmp_path: Path) -> None:
        fuzz_config(tmp_path, QUICK)

    def test_mutated_small_files_load_or_are_refused(self, tmp_path: Path) -> None:
        fuzz_small_files(tmp_path, 12)

    @pytest.mark.proof
    def test_three_hundred_of_each_small_file(self, tmp_path: Path) -> None:
        fuzz_small_files(tmp_path, 300)

    @pytest.mark.proof
    def test_twenty_thousand_mutated_safetensors(self, tmp_path: Path) -> None:
        fuzz_safetensors(tmp_path, PROOF)

    @pytest.mark.proof
    def test_twenty_thousand_mutated_configs(self, tmp_path: Path) -> None:
        fuzz_config(tmp_path, PROOF)


def test_the_largest_config_that_is_accepted_costs_little() -> None:
    huge = text_config(
        {
            "num_hidden_layers": 1024,
            "num_experts": 4096,
            "hidden_size": 1 << 20,
            "vocab_size": 1 << 24,
            "num_attention_heads": 4096,
            "num_key_value_heads": 4096,
            "mtp_num_hidden_layers": 1,
        },
        moe=True,
    )
    start = time.monotonic()
    config = ModelConfig.from_dict(huge)
    assert config.num_parameters > 10**14
    assert len(expected_tensors(config)) > 10_000
    assert time.monotonic() - start < 2
