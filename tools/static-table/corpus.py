"""The texts that the table learns from: WordNet's glosses, and clusters of questions that this program makes up.

A cluster is a question, other ways to ask it, and near misses: another thing in the same words, or another question
about the same thing. Everything is drawn by one seeded generator, in a fixed order.
"""

import random
import re
import tarfile
from collections import defaultdict

from frames import ENDINGS, GROUPS, LISTS, NOUNS, OPENINGS, OPPOSITES, RIVALS, SPELLINGS

SAME, OTHER = 1, 0
PARTS = {"n": "1", "m": "1", "v": "2", "a": "3"}  # WordNet's numbers of nouns, verbs, adjectives
SLOT = re.compile(r"\{(\w)\}")


class WordNet:
    """Lemmas, how often they were counted in tagged text, and which are named like or kinds of the same."""

    def __init__(self, archive):
        self.glosses, self.synonyms, self.siblings, counts = [], defaultdict(list), defaultdict(list), defaultdict(int)
        self.lemmas, self.words, self.pointers = {}, {}, []
        with tarfile.open(archive) as tar:
            read = lambda name: tar.extractfile("package/dict/" + name).read().decode("latin-1").split("\n")
            for line in read("index.sense"):
                fields = line.split(" ")
                if len(fields) == 4:
                    counts[fields[0].split("%")[0], fields[0].split("%")[1][0]] += int(fields[3])
            for number, pos in (("1", "noun"), ("2", "verb"), ("3", "adj"), ("4", "adv")):
                self.read_synsets(number, read("data." + pos))
        self.antonyms = self.find_antonyms()
        wanted = lambda lemma: lemma.isalpha() and lemma.islower() and 2 < len(lemma) < 13
        for number in "123":
            counted = [(count, lemma) for (lemma, pos), count in counts.items() if pos == number and count >= 3]
            chosen = [(count, lemma) for count, lemma in counted if wanted(lemma)]
            self.lemmas[number] = [lemma for _, lemma in sorted(chosen, key=lambda pair: (-pair[0], pair[1]))]

    def read_synsets(self, number, lines):
        for line in lines:
            if line.startswith("  ") or "|" not in line:
                continue
            head, gloss = line.split("|", 1)
            fields = head.split()
            words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            words = [word.split("(")[0].replace("_", " ").lower() for word in words]
            self.words[fields[0], number] = words
            for at, field in enumerate(fields):
                if field == "!":  # offset, part of speech, numbers of the two words
                    self.pointers.append((number, words, fields[at + 1], int(fields[at + 3], 16)))
            for word in words:
                self.synonyms[number, word].append([other for other in words if other != word])
            for at, field in enumerate(fields):
                if field == "@":
                    self.siblings[number, fields[at + 1]].extend(words)
                    break
            for part in gloss.split(";"):
                part = part.strip().strip('"').strip()
                if part.isascii() and 3 <= len(part.split()) <= 40:
                    self.glosses.append(part)

    def find_antonyms(self):
        antonyms = defaultdict(list)
        for number, words, offset, ends in self.pointers:
            others = self.words.get((offset, number))
            if others and ends >> 8 and ends & 255:
                antonyms[number, words[(ends >> 8) - 1]].append(others[(ends & 255) - 1])
        for one, other in OPPOSITES:
            antonyms["2", one].append(other)
            antonyms["2", other].append(one)
        return antonyms


class Clusters:
    """`held` draws from the frames and nouns that the others never see."""

    def __init__(self, wordnet, seed, held):
        self.random, self.wordnet = random.Random(seed), wordnet
        mine = lambda at: (at % 6 == 5) == held
        self.groups = {}
        for at, (name, frames) in enumerate(GROUPS.items()):
            if held:
                self.groups[name] = frames if mine(at) else []
            elif mine(at):
                self.groups[name] = frames
        self.groups = {name: frames for name, frames in self.groups.items() if len(frames) > 1}
        part = lambda words: [word for at, word in enumerate(words) if mine(at)] if len(words) > 12 else list(words)
        self.lists = {slot: part(words) for slot, words in LISTS.items()}
        self.lists["n"] = part(NOUNS) * 6 + part(wordnet.lemmas["1"][:4000])
        self.lists["v"] = part(wordnet.lemmas["2"][30:900] + [verb for pair in OPPOSITES for verb in pair] * 2)
        self.lists["a"] = part(wordnet.lemmas["3"][:1200])
        self.spelling = {}
        for slot, pairs in () if held else SPELLINGS.items():
            for one, other in pairs:
                self.lists[slot] += [one, other] * 6
                self.spelling |= {one: other, other: one}
        self.lists["m"] = self.lists["n"]
        self.kin = self.kindred()

    def kindred(self):
        """noun -> nouns of the same kind."""
        known, kin = set(self.lists["n"]), defaultdict(list)
        for (number, _), words in self.wordnet.siblings.items():
            if number != "1":
                continue
            words = [word for word in dict.fromkeys(words) if word in known]
            for word in words:
                kin[word] += [other for other in words if other != word]
        return kin

    def fill(self, frame, words):
        text = SLOT.sub(lambda slot: words[slot[1]], frame)
        return re.sub(r"(\w)eed\b", r"\1ed", text).replace("eing ", "ing ")

    def decorate(self, text):
        roll = self.random.random()
        if roll < 0.15:
            text = self.random.choice(OPENINGS) + " " + text
        elif roll < 0.35:
            text = text + " " + self.random.choice(ENDINGS)
        return text

    def synonym(self, slot, word):
        """The same word spelled otherwise, or one of the same first sense, where there is one."""
        if word in self.spelling:
            return self.spelling[word]
        number = PARTS.get(slot)
        senses = self.wordnet.synonyms.get((number, word)) if number else None
        return self.random.choice(senses[0]) if senses and senses[0] else None

    def other(self, slot, word):
        opposite = self.wordnet.antonyms.get((PARTS.get(slot), word))
        if opposite and self.random.random() < 0.7:
            return self.random.choice(opposite)
        if slot in "nm" and self.kin.get(word) and self.random.random() < 0.7:
            return self.random.choice(self.kin[word])
        alike = (word, self.spelling.get(word))
        return self.random.choice([other for other in self.lists[slot][:2000] if other not in alike])

    def draw(self):
        """[(text, SAME or OTHER)], the first of them the question itself."""
        pick = self.random.choice
        name = pick(list(self.groups))
        frames = self.groups[name]
        words = {slot: pick(words) for slot, words in self.lists.items()}
        chosen = self.random.sample(frames, min(3, len(frames)))
        cluster = [(self.decorate(self.fill(frame, words)), SAME) for frame in chosen]
        slots = set(SLOT.findall(" ".join(frames)))
        slot = pick([slot for slot in sorted(slots) if words[slot] in self.spelling] or sorted(slots))
        synonym = self.synonym(slot, words[slot])
        if synonym:
            cluster.append((self.decorate(self.fill(pick(frames), words | {slot: synonym})), SAME))
        for frame in (chosen[0], pick(frames)):
            slot = pick(sorted(set(SLOT.findall(frame))))
            missed = self.fill(frame, words | {slot: self.other(slot, words[slot])})
            cluster.append((self.decorate(missed), OTHER))
        rivals = [rival for line in RIVALS if name in line for rival in line if rival != name and rival in self.groups]
        if rivals:
            cluster.append((self.decorate(self.fill(pick(self.groups[pick(rivals)]), words)), OTHER))
        if len({text for text, _ in cluster}) < len(cluster):
            return self.draw()
        return cluster
