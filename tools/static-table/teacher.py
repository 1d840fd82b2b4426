"""all-MiniLM-L6-v2 in numpy: BERT with 6 layers of 384, mean pooling, unit length."""

import json
import struct

import numpy as np
from scipy.special import erf

CLS, SEP = 101, 102
HEADS = 12


def read_safetensors(data):
    """name -> float32 array (https://huggingface.co/docs/safetensors: u64 length, JSON header, raw tensors)."""
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = entry["data_offsets"]
        raw = data[8 + length + start : 8 + length + end]
        tensors[name] = np.frombuffer(raw, "<f4").reshape(entry["shape"])
    return tensors


class Teacher:
    def __init__(self, tensors):
        self.w = tensors
        self.words = tensors["embeddings.word_embeddings.weight"]
        place = tensors["embeddings.position_embeddings.weight"]
        self.place = place + tensors["embeddings.token_type_embeddings.weight"][0]
        self.layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def batch(self, rows):
        """Sentence vectors of texts of one length; `rows` holds vocabulary numbers without [CLS] and [SEP]."""
        count, size = rows.shape
        ids = np.concatenate([np.full((count, 1), CLS), rows, np.full((count, 1), SEP)], 1)
        size += 2
        x = self.norm(self.words[ids] + self.place[:size], "embeddings.LayerNorm").reshape(count * size, -1)
        for layer in range(self.layers):
            p = f"encoder.layer.{layer}."
            split = lambda y: y.reshape(count, size, HEADS, -1).transpose(0, 2, 1, 3)
            q, k, v = (split(self.linear(x, p + "attention.self." + name)) for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(q.shape[-1]))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            seen = (scores @ v).transpose(0, 2, 1, 3).reshape(count * size, -1)
            x = self.norm(x + self.linear(seen, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            inner = self.linear(x, p + "intermediate.dense")
            inner *= 0.5 * (1 + erf(inner * np.float32(0.5**0.5)))
            x = self.norm(x + self.linear(inner, p + "output.dense"), p + "output.LayerNorm")
        mean = x.reshape(count, size, -1).mean(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def embed(self, texts, tokens_at_once=2048, progress=None):
        """Vectors of texts given as lists of vocabulary numbers."""
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), i))
        out = np.zeros((len(texts), self.words.shape[1]), np.float32)
        start = 0
        while start < len(order):
            size = len(texts[order[start]])
            end = start
            while end < len(order) and len(texts[order[end]]) == size and (end - start) * (size + 2) < tokens_at_once:
                end += 1
            chosen = order[start:end]
            out[chosen] = self.batch(np.array([texts[i] for i in chosen]))
            start = end
            if progress:
                progress(start, len(order))
        return out
