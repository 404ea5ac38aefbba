"""The miniature's small operations as compiled loops: delta rule, norms, SwiGLU; forward and backward.

A model this narrow spends most of a training step in small tensor operations that move data between caches.
Each kernel here does one whole sub-block for a row of tokens while the numbers are near. Everything is
float32, on one thread, in a fixed order: the same inputs give the same bits.

The delta rule runs token by token, its 32x32 states being small enough for the nearest cache. The forward
pass keeps the state at the start of every CHUNK tokens; the backward pass recomputes the rest from there.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .shape import text_config

CONFIG = text_config()
HEADS: int = CONFIG["linear_num_value_heads"]
DIM: int = CONFIG["linear_key_head_dim"]  # of keys and values alike
TAPS: int = CONFIG["linear_conv_kernel_dim"]
EPS: float = CONFIG["rms_norm_eps"]
INNER = HEADS * DIM
CONV = 3 * INNER  # channels of q, k and v together
WIDTH = CONV + INNER + 2 * HEADS  # columns of one projected token: q, k, v, z, b, a
CHUNK = 32
SCALE = DIM**-0.5
F = np.float32

compiled = numba.njit(fastmath=True, cache=True, boundscheck=False, error_model="numpy")
inlined = numba.njit(fastmath=True, boundscheck=False, error_model="numpy", inline="always")


@intrinsic
def _bits_as_float(typingctx: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@inlined
def exp(x):  # type: ignore[no-untyped-def]
    """e^x within two units in the last place, in a form that vectorises (the library call does not)."""
    x = min(max(x, F(-87.0)), F(88.0))
    biased = np.int32(x * F(1.4426950408889634) + F(127.5))  # positive, so cutting rounds
    n = F(np.int32(biased - np.int32(127)))
    r = x - n * F(0.693359375) + n * F(2.12194440e-4)  # ln 2 in two parts
    p = F(1.9875691500e-4)
    p = p * r + F(1.3981999507e-3)
    p = p * r + F(8.3334519073e-3)
    p = p * r + F(4.1665795894e-2)
    p = p * r + F(1.6666665459e-1)
    p = p * r + F(5.0000001201e-1)
    p = p * r * r + r + F(1.0)
    return p * _bits_as_float(np.int32(biased << np.int32(23)))


@inlined
def sigmoid(x):  # type: ignore[no-untyped-def]
    return F(1.0) / (F(1.0) + exp(-x))


@compiled
def rms_norm_forward(x, w, y):  # type: ignore[no-untyped-def]
    """y = x / rms(x) * (1 + w), row by row."""
    rows, width = x.shape
    for t in range(rows):
        total = F(0)
        for c in range(width):
            total += x[t, c] * x[t, c]
        r = F(1.0) / math.sqrt(total / F(width) + F(EPS))
        for c in range(width):
            y[t, c] = x[t, c] * r * (F(1.0) + w[c])


@compiled
def add_rms_norm_forward(x, more, w, both, y):  # type: ignore[no-untyped-def]
    """both = x + more; y = rms_norm(both)."""
    rows, width = x.shape
    for t in range(rows):
        total = F(0)
        for c in range(width):
            value = x[t, c] + more[t, c]
            both[t, c] = value
            total += value * value
        r = F(1.0) / math.sqrt(total / F(width) + F(EPS))
        for c in range(width):
            y[t, c] = both[t, c] * r * (F(1.0) + w[c])


@compiled
def rms_norm_backward(dy, x, w, dpast, dx, dw):  # type: ignore[no-untyped-def]
    """dx = gradient through the norm + dpast (what reaches x around the norm); dw is added to."""
    rows, width = x.shape
    for t in range(rows):
        total = F(0)
        dot = F(0)
        for c in range(width):
            total += x[t, c] * x[t, c]
            dot += dy[t, c] * x[t, c] * (F(1.0) + w[c])
        r = F(1.0) / math.sqrt(total / F(width) + F(EPS))
        pull = dot * r * r * r / F(width)
        for c in range(width):
            dx[t, c] = dpast[t, c] + dy[t, c] * (F(1.0) + w[c]) * r - x[t, c] * pull
        for c in range(width):
            dw[c] += dy[t, c] * x[t, c] * r


@compiled
def swiglu_forward(gate_up, h):  # type: ignore[no-untyped-def]
    """h = silu(gate) * up, with gate and up side by side in [rows, 2 * width]."""
    rows, width = h.shape
    for t in range(rows):
        for c in range(width):
            gate = gate_up[t, c]
            h[t, c] = gate * sigmoid(gate) * gate_up[t, width + c]


@compiled
def swiglu_backward(dh, gate_up, dgate_up):  # type: ignore[no-untyped-def]
    rows, width = dh.shape
    for t in range(rows):
        for c in range(width):
            gate, up, d = gate_up[t, c], gate_up[t, width + c], dh[t, c]
            s = sigmoid(gate)
            dgate_up[t, c] = d * up * s * (F(1.0) + gate * (F(1.0) - s))
            dgate_up[t, width + c] = d * gate * s


@compiled
def cross_entropy(logits, wanted, dlogits):  # type: ignore[no-untyped-def]
    """Mean cross entropy over the rows, and its gradient by the logits."""
    rows, width = logits.shape
    loss = 0.0
    share = F(1.0 / rows)
    for t in range(rows):
        top = logits[t, 0]
        for c in range(width):
            top = max(top, logits[t, c])
        total = F(0)
        for c in range(width):
            e = exp(logits[t, c] - top)
            dlogits[t, c] = e
            total += e
        loss += math.log(total) + top - logits[t, wanted[t]]
        scale = share / total
        for c in range(width):
            dlogits[t, c] *= scale
        dlogits[t, wanted[t]] -= share
    return loss / rows


@compiled
def _prepare(p, row, start, n, taps, pre, y, norms):  # type: ignore[no-untyped-def]
    """Convolution, silu and l2 norms of n tokens from `start`: `y` gets unit q (scaled), unit k, and v."""
    for t in range(n):
        for c in range(CONV):
            pre[t, c] = taps[TAPS - 1, c] * p[row, start + t, c]
        for back in range(1, min(TAPS, start + t + 1)):
            for c in range(CONV):
                pre[t, c] += taps[TAPS - 1 - back, c] * p[row, start + t - back, c]
        for c in range(CONV):
            y[t, c] = pre[t, c] * sigmoid(pre[t, c])
        for h in range(2 * HEADS):
            total = F(0)
            for c in range(DIM):
                total += y[t, h * DIM + c] * y[t, h * DIM + c]
            r = F(1.0) / math.sqrt(total + F(1e-6))
            norms[t, h] = r
            if h < HEADS:
                r *= F(SCALE)
            for c in range(DIM):
                y[t, h * DIM + c] *= r


@compiled
def _softplus(x):  # type: ignore[no-untyped-def]
    return x if x > 20 else math.log1p(math.exp(x))


@compiled
def _recur(S, n, q, k, v, decay, beta, before, mem, read, delta):  # type: ignore[no-untyped-def]
    """n tokens of the recurrence on S [DIM, DIM]; all others have a first axis of tokens.

    Writes S before each token, what memory holds at its key after decay, what its query reads, and the
    correction that it writes.
    """
    for t in range(n):
        d = decay[t]
        for j in range(DIM):
            mem[t, j] = F(0)
            read[t, j] = F(0)
        for i in range(0, DIM, 4):
            k0, k1, k2, k3 = k[t, i], k[t, i + 1], k[t, i + 2], k[t, i + 3]
            q0, q1, q2, q3 = q[t, i], q[t, i + 1], q[t, i + 2], q[t, i + 3]
            for j in range(DIM):
                s0, s1, s2, s3 = S[i, j], S[i + 1, j], S[i + 2, j], S[i + 3, j]
                mem[t, j] += k0 * s0 + k1 * s1 + k2 * s2 + k3 * s3
                read[t, j] += q0 * s0 + q1 * s1 + q2 * s2 + q3 * s3
        qk = F(0)
        for i in range(DIM):
            qk += q[t, i] * k[t, i]
        for j in range(DIM):
            mem[t, j] *= d
            delta[t, j] = beta[t] * (v[t, j] - mem[t, j])
            read[t, j] = d * read[t, j] + qk * delta[t, j]
        for i in range(DIM):
            ki = k[t, i]
            for j in range(DIM):
                before[t, i, j] = S[i, j]
                S[i, j] = d * S[i, j] + ki * delta[t, j]


@compiled
def _recur_backward(dS, n, q, k, v, decay, beta, before, mem, delta, dread, dq, dk, dv, dbeta, ddecay):  # type: ignore[no-untyped-def]
    """Through `_recur`: dS, the gradient by S behind the n tokens, becomes the gradient by S before them."""
    ddelta, dmem = np.empty(DIM, F), np.empty(DIM, F)
    for t in range(n - 1, -1, -1):
        d = decay[t]
        delta_do = F(0)
        for j in range(DIM):
            ddelta[j] = F(0)
            delta_do += delta[t, j] * dread[t, j]
        for i in range(0, DIM, 4):
            k0, k1, k2, k3 = k[t, i], k[t, i + 1], k[t, i + 2], k[t, i + 3]
            q0, q1, q2, q3 = q[t, i], q[t, i + 1], q[t, i + 2], q[t, i + 3]
            for j in range(DIM):
                g0 = dS[i, j] + q0 * dread[t, j]
                g1 = dS[i + 1, j] + q1 * dread[t, j]
                g2 = dS[i + 2, j] + q2 * dread[t, j]
                g3 = dS[i + 3, j] + q3 * dread[t, j]
                dS[i, j], dS[i + 1, j], dS[i + 2, j], dS[i + 3, j] = g0, g1, g2, g3
                ddelta[j] += k0 * g0 + k1 * g1 + k2 * g2 + k3 * g3
        total = F(0)
        for j in range(DIM):
            dv[t, j] = beta[t] * ddelta[j]
            dmem[j] = -beta[t] * ddelta[j]
            total += ddelta[j] * (v[t, j] - mem[t, j])
        dbeta[t] = total
        total = F(0)
        for i in range(DIM):
            ki = k[t, i]
            s_do, s_dmem, g_delta, g_s = F(0), F(0), F(0), F(0)
            for j in range(DIM):  # no stores in here: that keeps it free of overlap checks
                s, g = before[t, i, j], dS[i, j]
                s_do += s * dread[t, j]
                s_dmem += s * dmem[j]
                g_delta += g * delta[t, j]
                g_s += g * s
            total += g_s + ki * s_dmem
            for j in range(DIM):
                dS[i, j] = d * (dS[i, j] + ki * dmem[j])
            dq[t, i] = d * s_do + ki * delta_do
            dk[t, i] = d * s_dmem + g_delta
        ddecay[t] = total


@compiled
def _gates(p, row, start, n, h, rate, bias, decay, beta):  # type: ignore[no-untyped-def]
    """exp(g) and beta of head h for n tokens."""
    for t in range(n):
        decay[t] = math.exp(rate * _softplus(p[row, start + t, CONV + INNER + HEADS + h] + bias))
        beta[t] = 1.0 / (1.0 + math.exp(-p[row, start + t, CONV + INNER + h]))


@compiled
def _take_head(y, n, h, q, k, v):  # type: ignore[no-untyped-def]
    for t in range(n):
        for j in range(DIM):
            q[t, j] = y[t, h * DIM + j]
            k[t, j] = y[t, INNER + h * DIM + j]
            v[t, j] = y[t, 2 * INNER + h * DIM + j]


@compiled
def _gated_norm(p, row, start, n, h, read, w, o):  # type: ignore[no-untyped-def]
    for t in range(n):
        total = F(0)
        for j in range(DIM):
            total += read[t, j] * read[t, j]
        r = F(1.0) / math.sqrt(total / F(DIM) + F(EPS))
        for j in range(DIM):
            z = p[row, start + t, CONV + h * DIM + j]
            o[row, start + t, h * DIM + j] = read[t, j] * r * w[j] * z * sigmoid(z)


@compiled
def _gated_norm_backward(p, row, start, n, h, read, w, do, dread, dp, dw):  # type: ignore[no-untyped-def]
    for t in range(n):
        total, dot = F(0), F(0)
        for j in range(DIM):
            z = p[row, start + t, CONV + h * DIM + j]
            dread[t, j] = do[row, start + t, h * DIM + j] * w[j] * z * sigmoid(z)
            total += read[t, j] * read[t, j]
            dot += dread[t, j] * read[t, j]
        r = F(1.0) / math.sqrt(total / F(DIM) + F(EPS))
        pull = dot * r * r * r / F(DIM)
        for j in range(DIM):
            z = p[row, start + t, CONV + h * DIM + j]
            s = sigmoid(z)
            dn = do[row, start + t, h * DIM + j] * read[t, j] * r
            dp[row, start + t, CONV + h * DIM + j] = dn * w[j] * s * (F(1.0) + z * (F(1.0) - s))
            dw[j] += dn * z * s
            dread[t, j] = dread[t, j] * r - read[t, j] * pull


@compiled
def _gates_backward(p, row, start, n, h, rate, bias, decay, beta, dbeta, ddecay, dp):  # type: ignore[no-untyped-def]
    """Writes the columns b and a of dp; returns what to add to dA_log and ddt_bias of the head."""
    dA_log, dbias = 0.0, 0.0
    for t in range(n):
        raw = p[row, start + t, CONV + INNER + HEADS + h] + bias
        dg = ddecay[t] * decay[t]
        draw = dg * rate / (1.0 + math.exp(-raw))
        dp[row, start + t, CONV + INNER + h] = dbeta[t] * beta[t] * (F(1.0) - beta[t])
        dp[row, start + t, CONV + INNER + HEADS + h] = draw
        dA_log += dg * rate * _softplus(raw)
        dbias += draw
    return dA_log, dbias


@compiled
def _prepare_backward(p, row, start, n, taps, pre, y, norms, dpre, dp, dtaps):  # type: ignore[no-untyped-def]
    """Through `_prepare`; dpre comes with the gradient by y, its last rows with that by later `pre`."""
    for t in range(n):
        for h in range(2 * HEADS):
            a = h * DIM
            size = F(SCALE) if h < HEADS else F(1.0)
            r = norms[t, h] * size
            dot = F(0)
            for c in range(DIM):
                dot += dpre[t, a + c] * y[t, a + c]
            dot /= size * size  # y holds size * unit vector
            for c in range(DIM):
                dpre[t, a + c] = r * (dpre[t, a + c] - y[t, a + c] * dot)
        for c in range(CONV):
            x = pre[t, c]
            s = sigmoid(x)
            dpre[t, c] *= s * (F(1.0) + x * (F(1.0) - s))
    for t in range(n):
        for c in range(CONV):
            dp[row, start + t, c] = (
                taps[3, c] * dpre[t, c]
                + taps[2, c] * dpre[t + 1, c]
                + taps[1, c] * dpre[t + 2, c]
                + taps[0, c] * dpre[t + 3, c]
            )
        for back in range(min(TAPS, start + t + 1)):
            for c in range(CONV):
                dtaps[TAPS - 1 - back, c] += dpre[t, c] * p[row, start + t - back, c]


@compiled
def delta_mixer_forward(p, taps, A_log, dt_bias, w, o, states):  # type: ignore[no-untyped-def]
    """From projected tokens to what `out_proj` takes.

    p [rows, length, WIDTH]; taps [TAPS, CONV]; w [DIM] (gated norm); writes o [rows, length, INNER] and
    states [rows, length / CHUNK, HEADS, DIM, DIM].
    """
    rows, length = p.shape[0], p.shape[1]
    pre, y = np.empty((CHUNK, CONV), F), np.empty((CHUNK, CONV), F)
    norms = np.empty((CHUNK, 2 * HEADS), F)
    before = np.empty((CHUNK, DIM, DIM), F)
    q, k, v = np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F)
    mem, read, delta = np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F)
    decay, beta = np.empty(CHUNK, F), np.empty(CHUNK, F)
    S = np.empty((HEADS, DIM, DIM), F)
    for row in range(rows):
        S[:] = F(0)
        for chunk in range((length + CHUNK - 1) // CHUNK):
            start = chunk * CHUNK
            n = min(CHUNK, length - start)
            states[row, chunk] = S
            _prepare(p, row, start, n, taps, pre, y, norms)
            for h in range(HEADS):
                _take_head(y, n, h, q, k, v)
                _gates(p, row, start, n, h, -math.exp(A_log[h]), dt_bias[h], decay, beta)
                _recur(S[h], n, q, k, v, decay, beta, before, mem, read, delta)
                _gated_norm(p, row, start, n, h, read, w, o)


@compiled
def delta_mixer_backward(do, p, taps, A_log, dt_bias, w, states, dp, dtaps, dA_log, ddt_bias, dw):  # type: ignore[no-untyped-def]
    """Gradients of `delta_mixer_forward`: dp is written, those of the weights are added to."""
    rows, length = p.shape[0], p.shape[1]
    pre, y = np.empty((CHUNK, CONV), F), np.empty((CHUNK, CONV), F)
    dpre = np.zeros((CHUNK + TAPS - 1, CONV), F)  # the last rows belong to the tokens behind the chunk
    norms = np.empty((CHUNK, 2 * HEADS), F)
    before = np.empty((CHUNK, DIM, DIM), F)
    q, k, v = np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F)
    dq, dk, dv = np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F)
    mem, read, delta = np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F), np.empty((CHUNK, DIM), F)
    decay, beta = np.empty(CHUNK, F), np.empty(CHUNK, F)
    ddecay, dbeta = np.empty(CHUNK, F), np.empty(CHUNK, F)
    dread = np.empty((CHUNK, DIM), F)
    S, dS = np.empty((DIM, DIM), F), np.empty((HEADS, DIM, DIM), F)
    chunks = (length + CHUNK - 1) // CHUNK
    for row in range(rows):
        dS[:] = F(0)
        dpre[:] = F(0)
        for chunk in range(chunks - 1, -1, -1):
            start = chunk * CHUNK
            n = min(CHUNK, length - start)
            if chunk < chunks - 1:
                dpre[CHUNK:] = dpre[: TAPS - 1]
            _prepare(p, row, start, n, taps, pre, y, norms)
            for h in range(HEADS):
                rate = -math.exp(A_log[h])
                S[:] = states[row, chunk, h]
                _take_head(y, n, h, q, k, v)
                _gates(p, row, start, n, h, rate, dt_bias[h], decay, beta)
                _recur(S, n, q, k, v, decay, beta, before, mem, read, delta)
                _gated_norm_backward(p, row, start, n, h, read, w, do, dread, dp, dw)
                _recur_backward(
                    dS[h], n, q, k, v, decay, beta, before, mem, delta, dread, dq, dk, dv, dbeta, ddecay
                )
                more = _gates_backward(p, row, start, n, h, rate, dt_bias[h], decay, beta, dbeta, ddecay, dp)
                dA_log[h] += more[0]
                ddt_bias[h] += more[1]
                for t in range(n):
                    for j in range(DIM):
                        dpre[t, h * DIM + j] = dq[t, j]
                        dpre[t, INNER + h * DIM + j] = dk[t, j]
                        dpre[t, 2 * INNER + h * DIM + j] = dv[t, j]
            _prepare_backward(p, row, start, n, taps, pre, y, norms, dpre, dp, dtaps)
