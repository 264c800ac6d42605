"""The work of the bench `train_step` in PyTorch: Llama 3 debug model, torch.compile, AdamW, clipping, on the CPU.

Writes one JSON object per step with the tokens per second of that step.
"""
import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

DIM, LAYERS, HEADS, HIDDEN, VOCAB, THETA = 256, 6, 16, 768, 2048, 500_000.0


def rotary_table(seq_len, head_dim):
    """Cosines and sines [seq_len, head_dim / 2] with the Llama 3.1 rescale of low frequencies."""
    freqs = THETA ** -(torch.arange(0, head_dim, 2).float() / head_dim)
    wavelength = 2 * math.pi / freqs
    smooth = (8192 / wavelength - 1) / 3
    between = (1 - smooth) * freqs / 8 + smooth * freqs
    freqs = torch.where(wavelength > 8192, freqs / 8, torch.where(wavelength < 2048, freqs, between))
    angles = torch.outer(torch.arange(seq_len).float(), freqs)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Rotates interleaved pairs of x [b, s, h, e]."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).type_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda n_in, n_out: nn.Linear(n_in, n_out, bias=False)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(DIM, eps=1e-5), nn.RMSNorm(DIM, eps=1e-5)
        self.wq, self.wk, self.wv, self.wo = (linear(DIM, DIM) for _ in range(4))
        self.w1, self.w3, self.w2 = linear(DIM, HIDDEN), linear(DIM, HIDDEN), linear(HIDDEN, DIM)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        n = self.attention_norm(x)
        q, k, v = (w(n).view(b, s, HEADS, -1) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        heads = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        h = x + self.wo(heads.transpose(1, 2).reshape(b, s, DIM))
        n = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(n)) * self.w3(n))


class Llama(nn.Module):
    def __init__(self, seq_len):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-5)
        self.output = nn.Linear(DIM, VOCAB, bias=False)
        for name, table in zip(("cos", "sin"), rotary_table(seq_len, DIM // HEADS)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return self.output(self.norm(h))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    for name, default in (("batch", 8), ("seq-len", 2048), ("steps", 5), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--metrics-json", required=True)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = Llama(args.seq_len)
    bf16 = args.dtype == "bfloat16"

    def loss_of(tokens, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    loss_of = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    with open(args.metrics_json, "w") as out:
        for step in range(1, args.steps + 1):
            rows = torch.randint(VOCAB, (args.batch, args.seq_len + 1))
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(rows[:, :-1], rows[:, 1:])
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            value = loss.item()
            seconds = time.perf_counter() - start
            record = {"step": step, "loss": value, "grad_norm": norm.item()}
            record["tps"] = args.batch * args.seq_len / seconds
            out.write(json.dumps(record) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
