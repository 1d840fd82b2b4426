"""From sentence vectors of the teacher to a table of word-piece vectors."""

import re

import numpy as np
import scipy.sparse as sparse

from corpus import SAME
from frames import GROUPS

# How fast a piece loses weight as it gets more frequent (Arora et al., "A Simple but Tough-to-Beat Baseline for Sentence
# Embeddings", ICLR 2017), and the share that the frames have in what "frequent" means; the rest are WordNet's glosses.
RARITY, FRAMES_SHARE = 3e-4, 0.7
# Pairs of one meaning are pulled to a cosine of 1; near misses are pushed down to what the teacher says, at most this.
NEAR_MISS_MOST = 0.8
STEPS, RATE = 3000, 0.01
CLUSTERS_AT_ONCE, GLOSSES_AT_ONCE = 64, 128


def principal_axes(vectors, dims):
    mean = vectors.mean(0)
    _, axes = np.linalg.eigh(np.cov((vectors - mean).T))
    axes = axes[:, ::-1][:, :dims].astype(np.float32)
    # The sign of an eigenvector is arbitrary: fix it.
    return mean, axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(dims)])


def frequencies(tokenise, glosses, size):
    frames = np.zeros(size)
    for group in GROUPS.values():
        for frame in group:
            for row in tokenise(re.sub(r"\{\w\}", " ", frame)):
                frames[row] += 1 / len(group)
    texts = np.bincount([row for rows in glosses for row in rows], minlength=size)
    return FRAMES_SHARE * frames / frames.sum() + (1 - FRAMES_SHARE) * texts / texts.sum() + 1e-7


def start(vocabulary_vectors, axes, frequency):
    weight = RARITY / (RARITY + frequency)
    table = (vocabulary_vectors - vocabulary_vectors.mean(0)) @ axes * weight[:, None]
    table = table.astype(np.float32)
    return table / np.abs(table).mean()


def embed(table, texts):
    sums = piece_counts(texts, len(table)) @ table
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)


def piece_counts(texts, width):
    lines = np.repeat(np.arange(len(texts)), [len(rows) for rows in texts])
    columns = np.array([row for rows in texts for row in rows])
    return sparse.csr_matrix((np.ones(len(columns), np.float32), (lines, columns)), shape=(len(texts), width))


class Adam:
    """Kingma and Ba, ICLR 2015, with a clock for each row: a row that no text has does not move."""

    def __init__(self, table):
        self.table = table
        self.mean, self.square = np.zeros_like(table), np.zeros_like(table)
        self.clock = np.zeros(len(table), np.int64)

    def step(self, rows, gradient, rate):
        self.clock[rows] += 1
        mean = self.mean[rows] = 0.9 * self.mean[rows] + 0.1 * gradient
        square = self.square[rows] = 0.99 * self.square[rows] + 0.01 * gradient * gradient
        age = self.clock[rows][:, None]
        step = mean / (1 - 0.9**age) / (np.sqrt(square / (1 - 0.99**age)) + 1e-8)
        self.table[rows] -= (rate * step).astype(np.float32)


def train(table, texts, targets, clusters, glosses, seed, progress):
    """Moves `table` so that its cosines are the teacher's, but nearer within a meaning and no nearer than
    NEAR_MISS_MOST for a near miss. `clusters` hold (text, SAME or OTHER); texts under `glosses` are in none."""
    random, adam = np.random.default_rng(seed), Adam(table)
    for step in range(STEPS):
        ids, labels, owners = [], [], []
        for owner in random.integers(0, len(clusters), CLUSTERS_AT_ONCE):
            for text, label in clusters[owner]:
                ids.append(text)
                labels.append(label == SAME)
                owners.append(owner)
        asked = len(ids)
        ids += random.integers(0, glosses, GLOSSES_AT_ONCE).tolist()
        batch = [texts[i] for i in ids]
        used, local = np.unique([row for rows in batch for row in rows], return_inverse=True)
        ends = np.cumsum([len(rows) for rows in batch])[:-1]
        counts = piece_counts([part.tolist() for part in np.split(local, ends)], len(used))
        sums = counts @ table[used]
        norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
        units, target = sums / norms, targets[ids]
        error, weight = errors(units, target, asked, np.array(labels), np.array(owners))
        gradient = 4 * (weight * error) @ units - target  # of the squared errors, and of minus the cosine to the target
        gradient = (gradient - (gradient * units).sum(1, keepdims=True) * units) / norms
        rate = RATE * min(1, 2 * (STEPS - step) / STEPS)
        adam.step(used, counts.T @ gradient, rate)
        progress(step + 1, STEPS)
    return table


def errors(units, target, asked, same, owners):
    """For each pair of texts, how far its cosine is from what it should be, and how much that counts."""
    wanted = target @ target.T
    weight = np.full(wanted.shape, 1 / len(wanted), np.float32)
    together = owners[:, None] == owners
    alike = together & same[:, None] & same
    unlike = together & (same[:, None] ^ same)
    wanted[:asked, :asked][alike] = 1
    wanted[:asked, :asked][unlike] = np.minimum(wanted[:asked, :asked][unlike], NEAR_MISS_MOST)
    weight[:asked, :asked][alike | unlike] = 1
    np.fill_diagonal(weight, 0)
    error = units @ units.T - wanted
    inner = error[:asked, :asked]
    inner[unlike & (inner < 0)] = 0  # a near miss may be as far as it likes
    return error, weight


def quantise(table):
    """Elements of -7 to 7 and half-precision scales; of some scales for each row the one with the least squared error."""
    largest = np.abs(table).max(1)
    best, error = None, np.full(len(table), np.inf)
    for share in np.arange(1.0, 0.5, -0.05):
        scales = np.where(largest == 0, 1, largest * share / 7).astype(np.float16)
        wide = scales.astype(np.float32)[:, None]
        rows = np.clip(np.round(table / wide), -7, 7)
        off = ((rows * wide - table) ** 2).sum(1)
        if best is None:
            best = (rows, scales)
        else:
            best = (np.where((off < error)[:, None], rows, best[0]), np.where(off < error, scales, best[1]))
        error = np.minimum(off, error)
    return best[0].astype(np.int8), best[1]


def nibbles(rows):
    """Two elements a byte: the first half of a row in the low bits, the second in the high ones."""
    half = rows.shape[1] // 2
    return (rows[:, :half] & 15).astype(np.uint8) | (rows[:, half:] << 4).astype(np.uint8)
