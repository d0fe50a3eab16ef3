"""Finds the tags that other tools write into transcripts and subtitles: sounds, speakers, times.

    [laughs] (coughs) *sighs* {breath} <laugh> [Music]    a sound
    ANNA:  [SPEAKER_01]  >>  <v Anna>                      who speaks
    [00:01:02]  <|0.00|>                                   when
    ♪ ♫                                                    signs of songs; their words stay

A tag taught as words would be spoken. Square brackets, parentheses and asterisks also enclose
ordinary text, so their content must consist of words for sounds: "(see page 5)" and "[sic]" stay.
So do the tags of `xtts.text.markup`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import unescape

from machine.text import enumeration
from xtts.text.markup import PAUSE_TAG, VOICE_TAG

# Words for sounds and manners of speech. A final * stands for any ending.
_SOUNDS = """
    applau* babbl* barks barking beep* blank_audio boo boos booing breath* breathes burp* cackl*
    chatter* cheer* chime* chirp* chuckl* clap claps clapping click clicks clicking cough* cries
    crosstalk crying exhale* gasp* giggl* groan* growl* grunt* gulp* hiss* hmm howl* hum
    hums humming inaudible indistinct inhale* instrumental jingle laugh* lip_smack lipsmack
    lyrics moan* mumbl* murmur* music musical noise noises overlapping panting pause pauses
    ringing ringtone rumbl* scoff* scream* screech* shout* shriek* shush* sigh* silence sing
    sings singing slams slamming smack* sneez* snicker* sniff* sniffl* snor* snort* sob sobs
    sobbing swallow* tongue_click tsk unclear unintelligible unk vocalization* whimper*
    whining whisper* whistl* yawn* yell*
    lacht lachen gelächter kichert kichern hustet husten seufzt seufzen seufzer musik musikspiel
    applaus beifall räuspert räuspern atmet atmen einatmen ausatmen weint weinen schreit schluchzt
    flüstert flüstern stille unverständlich* geräusch* gähnt niest stöhnt schnauft
    rire rires rit tousse toux soupir* musique pleur* chuchot* bruit bruits inspire* expire*
    applaudissements inintelligible cris crie éternue gémit
    risa risas ríe ríen tose tos suspir* música aplauso* llora llorando llanto susurr* ruido*
    silencio ininteligible respira inspira grita gritos estornuda gime carraspea
    riso risos ri risada* gargalhada* tosse chora choro sussurra* ruído* silêncio inaudível pigarro
    ininteligível espirra geme
    ridono risata risate tossisce sospir* musica applaus* piange sussurra* rumore rumori
    silenzio incomprensibile urla starnutisce
    śmiech* śmieje kaszel kaszle wzdycha westchnienie muzyka oklaski brawa płacze szepcze
    niezrozumiałe cisza
    смех смеётся смеется смеются кашель кашляет вздох вздыхает музыка аплодисменты плачет шепчет
    неразборчиво тишина шум
    gelach lach hoest hoesten zucht zuchten muziek onverstaanbaar stilte huilt fluistert
    gülüyor gülme kahkaha öksür* müzik alkış* smích směje kašel kašle hudba potlesk povzdech
    nevet nevetés zene taps köhög sóhajt सङ्गीत संगीत हँसी हंसी तालियाँ ضحك موسيقى تصفيق سعال
    笑 笑声 笑い 笑い声 音乐 音樂 音楽 掌声 掌聲 拍手 咳嗽 咳 叹气 ため息 웃음 음악 박수 기침 한숨
""".split()
# Words that only accompany those, as in "soft piano music playing" and "clears throat".
_WITH_SOUNDS = frozenset(
    """
    a all and at audience baby background bell bells big bird birds bright car cat clear clearing
    clears closes closing continues crowd deep deeply distance distant dog dogs door down dramatic
    fades faint faintly female gentle gently girl guitar heavily heavy her his horn horns in into
    laughter light lightly live loud loudly low male man men microphone nervous nervously of off
    open opening opens out people phone piano play playing plays quick quickly quiet quietly rock
    sad sadly sharp sharply slow slowly soft softly sound sounds spoken starts stops theme throat
    through to under up upbeat video voice voices wind with woman women
    sich leise laut schwer tief spielt publikum er sie fort on elle il se él ella fondo de fuerte
    suave profundamente fundo do dei in sottofondo się ze
    lip lips tongue teeth nose
""".split()
)
# Manners of speech, which tools write into square brackets only.
_MANNERS = frozenset(
    """
    amused angrily angry annoyed anxious bored calm calmly cautiously cheerful cheerfully confused
    curious curiously desperate disappointed elated excited excitedly exhausted fearful frightened
    frustrated happily happy hesitant hesitates hesitantly hopeful impatient joyful mischievously
    muttering neutral nervously playful playfully reassuring regretful sad sadly sarcastic
    sarcastically scared serious seriously sleepy softly sorrowful stammers stutters surprised
    tired wistful worried speaking foreign language speaks narrator accent strong french german
    spanish oral lbreak uv_break break beat foreign ride silent static
    alarm bang banging buzz buzzing clatter crash creak creaks creaking explosion footsteps gunfire
    gunshot gunshots honk honking honks knock knocks knocking rustling siren sirens splash splashing
    squeak squeaks thud thunder
""".split()
)
# These are also emphasised, *silence*, and such phrases are ordinary text: "(in silence)".
_EMPHASISED = frozenset("cries lyrics music musical noise pause scream shout silence".split())
_PHRASE_BEGINS = frozenset("a all and at in of to with".split())
_STEMS = tuple(word[:-1] for word in _SOUNDS if word.endswith("*"))
_EXACT_WORDS = frozenset(word for word in _SOUNDS if not word.endswith("*"))
_CLEAR_VERBS = frozenset(("clear", "clears", "clearing"))
_MAX_WORDS = 6
_WORD = re.compile(r"[^\W\d]+(?:['’][^\W\d]+)?|\d+")

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# What `extras/ssml` reads. `<p>` and `<s>` are also HTML.
_OUR_ELEMENTS = r"(?!/?\s*(?:speak|break|say-as|sub|prosody)\b)"
_ELEMENT = re.compile(rf"<{_OUR_ELEMENTS}/?[A-Za-z][^<>\n]{{0,80}}>|<\|[^<>|\n]{{1,40}}\|>")
_INNER_TIME = re.compile(r"<\d{1,2}:[\d:.,]+>")
_ENCLOSED = re.compile(
    r"\[(?P<square>[^\[\]\n]{1,60})\]|\((?P<round>[^()\n]{1,60})\)|\{(?P<curly>[^{}\n]{1,60})\}"
    r"|(?<![\w*])\*(?P<star>[^*\n]{1,60})\*(?![\w*])"
    r"|［(?P<wide>[^［］]{1,60})］|（(?P<paren>[^（）]{1,60})）|【(?P<lens>[^【】]{1,60})】"
)
_SONG = re.compile(r"[♩♪♫♬🎵🎶]+")
_HASHED_SONG = re.compile(r"^#\s+(.+?)\s+#$")
_CHANGE = re.compile(r"(?:(?<=\s)|^)>{2,3}(?=\s|\w)\s*")
_SPEAKER_IN_BRACKETS = re.compile(
    r"(?:speaker|spk|s|sprecher|hablante|locutor|orador|person)[ _-]?\d{1,3}", re.I
)
_TIME = re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d{1,3})?")
_LABEL_WORD = r"[^\W\d_][\w.'’-]*"
_NUMBERED_SPEAKER = r"(?i:speaker|spk|sprecher|hablante|locutor|orador|person)[ _-]?\d{1,3}"
_LABEL = re.compile(
    rf"\s*(?:[-–—]\s?)?(?P<name>{_NUMBERED_SPEAKER}|{_LABEL_WORD}(?: (?:{_LABEL_WORD}|\d{{1,2}}"
    r"|#\d{1,2}|\([^()\n]{1,20}\))){0,3})\s*[:：](?=\s|$)\s*"
)
# Words in capitals before a colon that do not name a speaker.
_NO_SPEAKERS = frozenset(
    "ACT ATTENTION BOOK BREAKING CAUTION CHAPITRE CHAPTER CAPÍTULO CAPITULO DANGER EPISODE FAQ "
    "IMPORTANT KAPITEL LESSON NB NEWS NOTE PART PS SCENE SECTION STEP TEIL TIP UK UPDATE USA "
    "VOLUME WARNING".split()
)
_MIN_LABELLED = 0.5
_MIN_REPEATS = 2
_SPACE_BEFORE = re.compile(r"\s+([,.;:!?…])")
_MAY_HOLD = re.compile(r"[\[({<*♩♪♫♬🎵🎶［（【:：]|>>|^#")


def decode_entities(text: str) -> tuple[str, list[str]]:
    """A text with its HTML entities as characters, and the entities. Twice, because some tools
    encode what is already encoded: `&amp;#39;`."""
    entities_found = list[str]()
    for _ in range(2):
        entities = _ENTITY.findall(text) if "&" in text else []
        decoded = _ENTITY.sub(lambda entity: unescape(entity[0]), text) if entities else text
        if decoded == text:
            break
        entities_found += entities
        text = decoded
    return " ".join(text.split()) if entities_found else text, entities_found


def without_tags(text: str, *, captions: bool = False) -> tuple[str, list[str]]:
    """A text without tags, and the tags. captions: for subtitles, where square brackets and
    parentheses in capitals always hold sounds."""
    if not _MAY_HOLD.search(text):
        return text, []
    tags = list[str]()

    def remove(match: re.Match[str]) -> str:
        if not match[0].startswith("</"):
            tags.append(" ".join(match[0].split()))
        return " "

    def remove_tag(match: re.Match[str]) -> str:
        return remove(match) if _is_tag(match, captions=captions) else match[0]

    plain = _INNER_TIME.sub("", text)
    for pattern in (_ELEMENT, _SONG, _CHANGE):
        plain = pattern.sub(remove, plain)
    plain = _ENCLOSED.sub(remove_tag, plain)
    if captions and (song := _HASHED_SONG.match(plain.strip())):
        plain = song[1]
        tags.append("#")
    label = _LABEL.match(plain)
    if label and _is_speaker(label["name"], plain[label.end() :], captions=captions):
        tags.append(plain[: label.end()].strip())
        plain = plain[label.end() :]
    if not tags and plain == text:
        return text, []
    return _SPACE_BEFORE.sub(r"\1", " ".join(plain.split())).lstrip(",;: "), tags


def without_speakers(texts: Sequence[str], *, captions: bool = False) -> tuple[list[str], list[str]]:
    """Texts without the names of speakers before a colon, "Anna Smith: Hello.", and the names.

    "Remember: the shop is closed" is a sentence. So names that are not in capitals count only if most
    texts have one, or if two or more names repeat. In captions, a name of two words counts, or one
    that repeats, if sentences follow.
    """
    labels = [label if (label := _LABEL.match(text)) and _is_name(label["name"]) else None for text in texts]
    counts = Counter(label["name"] for label in labels if label)
    repeated = {name for name, count in counts.items() if count >= _MIN_REPEATS}
    if counts.total() >= _MIN_LABELLED * len(texts) and repeated:
        speakers = set(counts)
    elif captions:
        before_lower_case = {
            label["name"]
            for label, text in zip(labels, texts, strict=True)
            if label and text[label.end() : label.end() + 1].islower()
        }
        speakers = {name for name in counts if name in repeated or " " in name} - before_lower_case
    else:
        speakers = repeated if len(repeated) >= _MIN_REPEATS else set[str]()
    plain, names = list[str](), list[str]()
    for text, label in zip(texts, labels, strict=True):
        if label and label["name"] in speakers:
            names.append(f"{label['name']}:")
            text = text[label.end() :]
        plain.append(text)
    return plain, names


def strip_tags(texts: Iterable[str], tags: list[str]) -> list[str]:
    """Texts without tags and names of speakers, which are appended to `tags`."""
    plain = list[str]()
    for text in texts:
        words, removed = without_tags(text)
        plain.append(words)
        tags += removed
    plain, names = without_speakers(plain)
    tags += names
    return plain


def tags_note(where: str, tags: Iterable[str]) -> str:
    """A sentence that names the tags that were left out, most frequent first."""
    counts = Counter(tags)
    named = [f"{tag} ({count})" if count > 1 else tag for tag, count in counts.most_common()]
    are = "1 tag is" if counts.total() == 1 else f"{counts.total()} tags are"
    return f"{where}: {are} not spoken and left out of the texts: {enumeration(named)}."


def _is_tag(match: re.Match[str], *, captions: bool) -> bool:
    """Whether something in brackets, parentheses or asterisks is a tag."""
    if PAUSE_TAG.fullmatch(match[0]) or VOICE_TAG.fullmatch(match[0]):
        return False
    kind = str(match.lastgroup)
    inside = str(match[kind]).strip(" .,!?:;…-–—♪#")
    is_square = kind in ("square", "wide", "lens")
    if not any(map(str.isalnum, inside)):
        return is_square or kind == "curly" or not inside
    if _SPEAKER_IN_BRACKETS.fullmatch(inside) or (is_square and _TIME.fullmatch(inside)):
        return True
    if is_square and captions:
        return True
    if kind == "curly" and (inside.startswith("\\") or _WORD.fullmatch(inside)):
        return True
    words = [word.strip("_") for word in _WORD.findall(inside)]
    is_capitals = inside.isupper() and len(inside) > 1
    if is_capitals and (is_square or kind == "curly" or (captions and len(words) > 1)):
        # `{HH AH0 L OW1}` holds phonemes.
        return kind != "curly" or not any(map(str.isdigit, inside))
    letters = [word.casefold() for word in words if not word.isdigit()]
    ordinary = _EMPHASISED if kind == "star" else _PHRASE_BEGINS if kind == "round" else ()
    if not letters or len(letters) > _MAX_WORDS or letters[0] in ordinary:
        return False
    return not re.search(r"[,.;!?]", inside) and _names_sound(letters, manners=is_square or captions)


def _names_sound(words: Sequence[str], *, manners: bool) -> bool:
    """Whether all words are for sounds, or accompany one. manners: manners of speech count, too."""
    sounds = [word for word in words if _is_sound(word)]
    others = [word for word in words if word not in _WITH_SOUNDS and word not in sounds]
    if "throat" in words and not _CLEAR_VERBS.isdisjoint(words):
        sounds.append("throat")
    if sounds and not others:
        return True
    ordinary = [word for word in others if word not in _MANNERS]
    return manners and not ordinary and not _MANNERS.isdisjoint(words)


def _is_sound(word: str) -> bool:
    parts = [part for part in word.split("_") if part]
    return word in _EXACT_WORDS or any(part in _EXACT_WORDS or part.startswith(_STEMS) for part in parts)


def _is_speaker(name: str, spoken_text: str, *, captions: bool) -> bool:
    """Whether a word before a colon is a speaker without regard to other texts: `ANNA:`,
    `Speaker 1:`."""
    if re.fullmatch(_NUMBERED_SPEAKER, name):
        return True
    letters = "".join(filter(str.isalpha, name.partition("(")[0]))
    if len(letters) < 2 or not letters.isupper() or name.split()[0] in _NO_SPEAKERS:
        return False
    return captions or not spoken_text.isupper()


def _is_name(name: str) -> bool:
    """Whether every word begins with a capital, or in scripts without them is a letter."""
    return all(word[0].isupper() or not word[0].islower() for word in name.split())
