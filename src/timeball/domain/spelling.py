"""What was meant by a misspelt word, found in a fraction of a millisecond.

`difflib` compares a word with every known one: with the names of all time zones that takes 4 ms, and 500 wrong zones in
one request took 2 s. Here an index of pairs of letters picks the few that are worth comparing.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from typing import Final

MAX_WORD_LENGTH: Final = 64
"""Characters of a word that are compared."""
CANDIDATES: Final = 6
"""Known words that are compared with it."""


class Spelling:
    """Known words, each in the form in which it is compared, with what is suggested for it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._with_pair: dict[str, list[str]] = {}
        for word in known:
            for pair in _pairs(word):
                self._with_pair.setdefault(pair, []).append(word)

    def closest(self, word: str) -> str | None:
        """What is suggested for a word; None: nothing is like it."""
        word = word[:MAX_WORD_LENGTH]
        shared: Counter[str] = Counter()
        for pair in _pairs(word):
            shared.update(self._with_pair.get(pair, ()))
        # Of words that share as many pairs, the one of a similar length is closer.
        ranked = sorted(shared, key=lambda each: abs(len(each) - len(word)) - 2 * shared[each])[:CANDIDATES]
        close = difflib.get_close_matches(word, ranked, n=1)
        return self._known[close[0]] if close else None


def _pairs(word: str) -> set[str]:
    """Neighbouring letters, with an edge on either side: of a short word few pairs survive one mistake."""
    return {first + second for first, second in zip(f"^{word}", f"{word}$", strict=True)}
