#!/usr/bin/env python3
"""Writes a stream of questions with known answers for `signet-load replay --stream`, one JSON object a line: text, cluster.

Two texts of one cluster have one answer. The questions come from templates over lists, chosen so that most neighbours differ
in one thing that matters (a country, a number, a verb, the order of two cities), and from labelled pairs that are given:
`--pairs` takes the rule tests' files (`a | b` a line, *serve* files hold pairs with one answer), `--labelled` takes JSON lines
with a, b and label. The same seed gives the same stream.
"""

import argparse
import json
import random
from pathlib import Path

COUNTRIES = """Norway Sweden Denmark Finland Iceland Germany France Spain Portugal Italy Austria Switzerland Belgium Poland
Hungary Greece Turkey Egypt Morocco Kenya Ghana Nigeria Angola Namibia Zambia Brazil Chile Peru Bolivia Ecuador Colombia
Panama Mexico Canada Japan China India Nepal Thailand Vietnam Laos Malaysia Indonesia Australia Ireland Scotland""".split()
FOODS = """rice pasta lentils potatoes carrots beans salmon trout chicken bread butter cheese spinach broccoli mushrooms
onions garlic leeks apples pears plums cherries strawberries yoghurt tofu oats barley quinoa couscous eggplants""".split()
PROGRAMS = """Python Rust Docker PostgreSQL Redis Kubernetes Terraform Ansible Git Vim Emacs Firefox Thunderbird Blender
Inkscape Audacity VLC LibreOffice Node Ruby Perl Nginx Grafana Prometheus Jenkins""".split()
CITIES = """Oslo Bergen Stockholm Copenhagen Helsinki Berlin Munich Hamburg Vienna Prague Warsaw Paris Lyon Madrid Lisbon
Rome Milan Athens London Dublin Edinburgh Brussels Zurich Geneva Budapest""".split()
UNITS = [("miles", "kilometres", "km"), ("pounds", "kilograms", "kg"), ("feet", "metres", "m"), ("inches", "centimetres", "cm")]

# Wordings of one question; {x} stands for an item of the list.
FAMILIES = [
    (COUNTRIES, [
        ["What is the capital of {x}?", "What's the capital of {x}?", "what is the capital of {x}", "Can you tell me what the capital of {x} is?"],
        ["What is the population of {x}?", "What's the population of {x}?", "Please tell me what the population of {x} is"],
        ["What is the currency of {x}?", "What's the currency of {x}?", "what is the currency of {x}?"],
        ["Which languages are spoken in {x}?", "What languages are spoken in {x}?"],
        ["How do I get a visa for {x}?", "How can I get a visa for {x}?", "How to get a visa for {x}"],
        ["Which countries border {x}?", "What countries border {x}?"],
        ["What is the longest river in {x}?", "What's the longest river in {x}?"],
        ["What is the highest mountain in {x}?", "What's the highest mountain in {x}?"],
    ]),
    (FOODS, [
        ["How do I cook {x}?", "How can I cook {x}?", "How to cook {x}", "Hi! How do I cook {x}, please?"],
        ["How do I freeze {x}?", "How can I freeze {x}?", "how do I freeze {x}"],
        ["How do I store {x}?", "How to store {x}?", "Hello, how do I store {x}? Thanks"],
        ["How do I reheat {x}?", "How can I reheat {x}?"],
        ["Can dogs eat {x}?", "can dogs eat {x}"],
        ["Can cats eat {x}?", "can cats eat {x}"],
    ]),
    (PROGRAMS, [
        ["How do I install {x} on Linux?", "How can I install {x} on Linux?", "How to install {x} on Linux"],
        ["How do I uninstall {x} on Linux?", "How can I uninstall {x} on Linux?", "How to uninstall {x} on Linux"],
        ["How do I install {x} on Windows?", "How to install {x} on Windows?"],
        ["How do I update {x} on Linux?", "How can I update {x} on Linux?"],
        ["What is {x} used for?", "what is {x} used for"],
    ]),
]


def clusters():
    """Every question as the list of its wordings."""
    for items, questions in FAMILIES:
        for item in items:
            for wordings in questions:
                yield [wording.format(x=item) for wording in wordings]
    for start in CITIES:
        for end in CITIES:
            if start != end:
                yield [f"How long does a train from {start} to {end} take?", f"how long does a train from {start} to {end} take"]
    for number in range(2, 7500):
        one, other, short = UNITS[number % len(UNITS)]
        yield [f"How do I convert {number} {one} to {other}?", f"How can I convert {number} {one} to {short}?"]


def of_pairs(files):
    for file in files:
        serves = "serve" in Path(file).name
        for line in Path(file).read_text().splitlines():
            if " | " in line and not line.startswith("#"):
                one, other = (side.strip() for side in line.split(" | ", 1))
                yield from [[one, other]] if serves else [[one], [other]]


def labelled(files):
    for file in files:
        for line in Path(file).read_text().splitlines():
            row = json.loads(line)
            if isinstance(row.get("a"), str) and isinstance(row.get("b"), str):
                yield from [[row["a"], row["b"]]] if row["label"] else [[row["a"]], [row["b"]]]


def joined(groups):
    """Groups that share a text are one: two files may ask the same."""
    leader, members = {}, {}
    for number, group in enumerate(groups):
        known = sorted({leader[text] for text in group if text in leader})
        home = known[0] if known else number
        texts = set(group).union(*(members.pop(other) for other in known))
        members[home] = texts
        leader.update((text, home) for text in texts)
    return [sorted(texts) for texts in members.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", nargs="*", default=[])
    parser.add_argument("--labelled", nargs="*", default=[])
    args = parser.parse_args()
    dice = random.Random(args.seed)
    groups = joined([*clusters(), *of_pairs(args.pairs), *labelled(args.labelled)])
    texts = [(text, number) for number, group in enumerate(groups) for text in group]
    dice.shuffle(texts)
    # Every text once as far as there is room, then repeats: the partition fills up before it is asked again.
    stream = texts[:args.arrivals] + [dice.choice(texts) for _ in range(max(0, args.arrivals - len(texts)))]
    for text, cluster in stream:
        print(json.dumps({"text": text, "cluster": cluster}, ensure_ascii=False))


if __name__ == "__main__":
    main()
