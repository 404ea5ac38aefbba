"""Every classic mistake, made on purpose in a copy of the sources, must turn a test of this folder red.

The list is that of the plausible misreadings of the architecture: each one still produces fluent-looking
numbers (docs/model.md tells the right way). The chunked form has no entry: the delta rule here has no chunks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assets import ROOT

REF = "backends/reference/"
OPS, DELTA, ATTENTION, ELEMENT = (REF + f"{n}.py" for n in ("ops", "delta", "attention", "elementwise"))
MODEL = "model/text_model.py"
ROTARY = "backends/common/rotary.py"

MISTAKES: dict[str, tuple[str, str, str]] = {
    "norms multiply by w instead of 1 + w": (OPS, "rms_norm(x, ONE + norm, eps)", "rms_norm(x, norm, eps)"),
    "final norm multiplies by w": (OPS, "rms_norm(x[rows], ONE + norm, eps)", "rms_norm(x[rows], norm, eps)"),
    "gated norm multiplies by 1 + w": (DELTA, "rms_norm(memory, w.norm,", "rms_norm(memory, 1 + w.norm,"),
    "q_proj read as all queries, then all gates": (
        ATTENTION,
        "np.split(qg.reshape(n, nh, 2 * hd), 2, axis=-1)",
        "(h.reshape(n, nh, hd) for h in np.split(qg, 2, axis=-1))",
    ),
    "attention gate is silu": (
        ATTENTION,
        "* sigmoid(gate.reshape(n, nh * hd))",
        "* sigmoid(gate.reshape(n, nh * hd)) * gate.reshape(n, nh * hd)",
    ),
    "value head j reads key head j % Hk": (
        DELTA,
        "np.repeat(q, groups, axis=1), np.repeat(k, groups, axis=1)",
        "np.tile(q, (1, groups, 1)), np.tile(k, (1, groups, 1))",
    ),
    "query heads alternate between key heads": (
        ATTENTION,
        "angles).reshape(n, nkv, nh // nkv, hd)\n",
        "angles).reshape(n, nh // nkv, nkv, hd).swapaxes(1, 2).copy()\n",
    ),
    "rotary exponent uses head_dim": (
        ROTARY,
        "dtype=np.float32) / np.float32(shape.rotary_dim)",
        "dtype=np.float32) / np.float32(shape.head_dim)",
    ),
    "rotary theta is 1e4": (ROTARY, "np.float32(shape.rope_theta)", "np.float32(1e4)"),
    "rotary pairs are neighbours": (
        ATTENTION,
        "a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]",
        "a, b, rest = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2], x[..., 2 * half :]",
    ),
    "rotary turns the last dims": (
        ATTENTION,
        "    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]\n",
        "    x = np.roll(x, 2 * half, axis=-1)\n"
        "    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]\n",
    ),
    "no norm on queries": (
        ATTENTION,
        "rotate(rms_norm(q, w.q_norm, shape.eps), angles)",
        "rotate(q, angles)",
    ),
    "no norm on keys": (
        ATTENTION,
        "k = rotate(rms_norm(k.reshape(n, nkv, hd), w.k_norm, shape.eps), angles)",
        "k = rotate(k.reshape(n, nkv, hd), angles)",
    ),
    "values are rotated too": (
        ATTENTION,
        "v = v.reshape(n, nkv, hd)",
        "v = rotate(v.reshape(n, nkv, hd), angles)",
    ),
    "no attention scale": (ATTENTION, "* np.float32(q.shape[-1] ** -0.5)", ""),
    "a token does not see itself": (
        ATTENTION,
        "visible = old + row - first + 1",
        "visible = max(old + row - first, 1)",
    ),
    "l2norm is a mean": (ELEMENT, "sum_square = np.sum(", "sum_square = np.mean("),
    "l2norm epsilon is 1e-12": (ELEMENT, "sum_square + np.float32(1e-6)", "sum_square + np.float32(1e-12)"),
    "no query scale in the delta rule": (
        DELTA,
        "q = q * np.float32(shape.key_dim**-0.5)",
        "q = q * np.float32(1)",
    ),
    "no silu after the convolution": (DELTA, "return silu(y), padded", "return y, padded"),
    "convolution taps reversed": (DELTA, "* taps[:, m]", "* taps[:, kernel - 1 - m]"),
    "values skip the silu": (
        DELTA,
        "    v = y[:, 2 * shape.kd :].reshape(",
        "    s = y[:, 2 * shape.kd :]\n    v = np.where(s > 0, 1.2 * s, 0 * s).astype(np.float32).reshape(",
    ),
    "convolution window holds activated values": (
        DELTA,
        "return silu(y), padded[len(padded)",
        "return silu(y), silu(padded)[len(padded)",
    ),
    "decay ignores dt_bias": (
        DELTA,
        "return -np.exp(a_log) * softplus(a + dt_bias)",
        "return -np.exp(a_log) * softplus(a)",
    ),
    "a and b swapped": (MODEL, "qkv, z, b, a = self.ops", "qkv, z, a, b = self.ops"),
    "gate before norm": (
        DELTA,
        "rms_norm(memory, w.norm, shape.eps) * silu(z.reshape(memory.shape))",
        "rms_norm(memory * silu(z.reshape(memory.shape)), w.norm, shape.eps)",
    ),
    "prediction before decay": (
        DELTA,
        '    S = S * np.exp(g)[:, None, None]\n    predicted = np.einsum("hk,hkv->hv", k, S)\n',
        '    predicted = np.einsum("hk,hkv->hv", k, S)\n    S = S * np.exp(g)[:, None, None]\n',
    ),
    "output reads the memory before the correction": (
        DELTA,
        '    S += k[:, :, None] * correction[:, None, :]\n    return np.einsum("hk,hkv->hv", q, S), S',
        '    o = np.einsum("hk,hkv->hv", q, S)\n'
        "    S += k[:, :, None] * correction[:, None, :]\n    return o, S",
    ),
    "norm epsilon is 1e-5": (ELEMENT, "mean_square + np.float32(eps)", "mean_square + np.float32(1e-5)"),
    "positions restart in decode": (
        ATTENTION,
        "angles = rotary_angles(batch.rope_positions, shape)",
        "angles = rotary_angles(batch.rope_positions * (n > 1), shape)",
    ),
    "state is not carried over": (DELTA, "    if slot == FRESH:", "    if slot == FRESH or True:"),
    "state is written while others still read it": (
        DELTA,
        "        after.append((window, S))\n",
        "        after.append((window, S))\n"
        "        state.conv_window[batch.dst_slot[i]], state.recurrent[batch.dst_slot[i]] = window, S\n",
    ),
    "recurrent state rounded to half precision": (
        DELTA,
        "state.recurrent[slot] = window, S",
        "state.recurrent[slot] = window, S.astype(np.float16)",
    ),
    "gate and up swapped": (MODEL, "gate, up = self.ops.norm_linear", "up, gate = self.ops.norm_linear"),
    "no residual": (OPS, "return residual + weight(x)", "return weight(x)"),
}


def run_tests_of_a_copy(tmp: Path, file: str, right: str, wrong: str) -> subprocess.CompletedProcess[str]:
    copy = tmp / "src" / "qanat"
    shutil.copytree(
        ROOT / "src" / "qanat", copy, ignore=shutil.ignore_patterns("__pycache__", "pocket_model")
    )
    source = (copy / file).read_text()
    assert source.count(right) == 1, f"{file} must hold exactly once: {right}"
    (copy / file).write_text(source.replace(right, wrong))
    tests = [
        f"tests/model/{name}.py" for name in ("test_equations", "test_reference_logits", "test_same_bits")
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.proof
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_classic_mistake_turns_a_test_red(mistake: str, tmp_path: Path) -> None:
    done = run_tests_of_a_copy(tmp_path, *MISTAKES[mistake])
    assert done.returncode == 1, f"{mistake} went unnoticed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "AssertionError" in done.stdout or "assert" in done.stdout, done.stdout[-2000:]


@pytest.mark.proof
def test_an_unchanged_copy_stays_green(tmp_path: Path) -> None:
    done = run_tests_of_a_copy(tmp_path, OPS, "residual + weight(x)", "weight(x) + residual")
    assert done.returncode == 0, done.stdout[-2000:]
