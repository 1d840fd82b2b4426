"""The tokeniser of pkg/vector (src/tokenise.rs), for ASCII text."""

import re

WORDS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")


class WordPiece:
    """Texts to rows of a vocabulary. `None` for a text that the encoder would refuse."""

    def __init__(self, tokens):
        self.rows = {token: row for row, token in enumerate(tokens)}
        self.longest = max(map(len, tokens))
        self.seen = {}

    def __call__(self, text):
        if not text.isascii():
            return None
        rows = []
        for word in WORDS.findall(text.lower()):
            pieces = self.seen.get(word)
            if pieces is None:
                pieces = self.seen[word] = self.split(word)
            if not pieces:
                return None
            rows += pieces
        return rows if 0 < len(rows) <= 254 else None

    def split(self, word):
        """The longest piece first, again and again; empty where nothing fits."""
        rows, start, mark = [], 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self.longest), start, -1):
                row = self.rows.get(mark + word[start:end])
                if row is not None:
                    break
            else:
                return []
            rows.append(row)
            start, mark = end, "##"
        return rows
