"""Texts of a recording, plain or with times in the formats of many programs."""

import json
from pathlib import Path

import pytest

from extras.cut.cues import Cue, read_cues
from extras.cut.recordings import CuttingError

TWO = [("Good morning.", 1.5, 3.25), ("How are you?", 4.0, 5.5)]
SRT = (
    "1\r\n00:00:01,500 --> 00:00:03,250\r\n<i>Good</i>\r\nmorning.\r\n\r\n"
    "2\r\n00:00:04,000 --> 00:00:05,500\r\nHow are you?\r\n"
)
VTT = (
    "WEBVTT\n\nNOTE nothing\n\n00:01.500 --> 00:03.250 align:start\nGood morning.\n\n"
    "00:00:04.000 --> 00:00:05.500\nHow are you?\n"
)
HTK = "0 15000000 sil\n15000000 32500000 Good morning.\n40000000 55000000 How are you?\n"
AUDACITY = "1.5\t3.25\tGood morning.\n4.0\t5.5\tHow are you?\n"
GRID = """File type = "ooTextFile"
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        intervals [1]:
            xmin = 0
            xmax = 2
            text = "wrong"
    item [2]:
        class = "IntervalTier"
        name = "sentences"
        intervals [1]:
            xmin = 0
            xmax = 1.5
            text = ""
        intervals [2]:
            xmin = 1.5
            xmax = 3.25
            text = "Good morning."
        intervals [3]:
            xmin = 4.0
            xmax = 5.5
            text = "How are you?"
"""


def read(path: Path, language: str = "en", notes: list[str] | None = None) -> list[Cue]:
    return read_cues(path, language, [] if notes is None else notes)


def test_captions_roll_and_name_who_speaks(tmp_path):
    """Entities, sounds, ruby and a pause between two equal words."""
    rolling = tmp_path / "a.srt"
    rolling.write_text(
        "1\n00:00:00,120 --> 00:00:02,510\n \nso today we talk about\n\n"
        "2\n00:00:02,510 --> 00:00:02,520\nso today we talk about\n \n\n"
        "3\n00:00:02,520 --> 00:00:05,190\nso today we talk about\n3 lamps &amp; [Music]\n\n"
        "4\n00:00:05,190 --> 00:00:05,200\n3 lamps &amp; [Music]\n \n\n"
        "5\n00:00:05,200 --> 00:00:07,900\n3 lamps &amp; [Music]\nmy dog no no\n\n"
        "6\n00:00:09,500 --> 00:00:11,000\nno\n"
    )
    assert [cue.text for cue in read(rolling)] == [
        "so today we talk about",
        "3 lamps &",
        "my dog no no",
        "no",
    ]
    named = tmp_path / "b.vtt"
    named.write_text(
        "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nintro\n00:00.000 --> 00:02.000 align:start\n"
        "<v.loud Anna>Good <c.red>day</c>, Ben.</v>\n\n00:02.100 --> 00:04.000\n"
        "<v Ben>Hi! (laughs) It&#39;s 5 &lt; 6.\n\n00:04.100 --> 00:06.000\n<v Anna>- Yes.\n"
        "<v Ben>- No, <00:05.000><c>really</c>.\n\n00:08.100 --> 00:09.500\n"
        "BEN (quietly): <ruby>Tokyo<rt>tow-kyow</rt></ruby> (not Kyoto).\n"
    )
    assert [cue.text for cue in read(named)] == [
        "Good day, Ben.",
        "Hi! It's 5 < 6.",
        "Yes. No, really.",
        "Tokyo (not Kyoto).",
    ]


def test_the_cues_of_a_plain_text_are_its_paragraphs(tmp_path):
    (tmp_path / "a.txt").write_bytes("Good\nmorning.\n\nHow are you?\n".encode("utf-16"))
    assert read(tmp_path / "a.txt") == [Cue(text) for text, _, _ in TWO]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", None, "does not exist"),
        ("a.docx", b"x", "is not a supported text file"),
        ("a.txt", b" \n", "contains no words"),
        ("a.txt", b"caf\xe9", "line 1: byte 0xe9"),
        ("a.srt", b"Good morning.", "Is it a subtitle file"),
        ("a.lab", b"Good morning to you", "line 1"),
        ("a.vtt", b"00:05.000 --> 00:03.000\nNo.", "ends at 3 s, before 5 s"),
        ("a.TextGrid", b"words", "lacks an IntervalTier"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CuttingError, match=told):
        read(tmp_path / name)


def cues_of(path: Path, content: str, language: str = "en") -> list[tuple[str, float, float]]:
    path.write_text(content, encoding="utf-8", newline="")
    return [(cue.text, cue.start, cue.end) for cue in read(path, language)]


# Captions that roll

LINES = [
    "the lamp by the window was still burning",
    "no",
    "no",
    "we walked along the river until noon",
    "nobody had opened the letter from the bank",
]
BEGINS = [0.5, 3.39, 4.4, 5.4, 9.9, 12.9]
SPOKEN = [(line, start, end - 0.01) for line, start, end in zip(LINES, BEGINS, BEGINS[1:])]


def clock(seconds: float, comma: str = ".") -> str:
    return f"00:00:{seconds:06.3f}".replace(".", comma)


def with_word_times(line: str, start: float) -> str:
    first, *others = line.split()
    return first + "".join(
        f"<{clock(start + 0.1 * number)}><c> {word}</c>" for number, word in enumerate(others, 1)
    )


def youtube(padding: str, word_times: bool) -> str:
    """YouTube's automatic captions: each line is shown above the next one, too. A cue of 10 ms
    lies between, and a line of one space pads the first and the short cues."""
    text = "WEBVTT\nKind: captions\nLanguage: en\n\n"
    above = padding
    for line, start, end in SPOKEN:
        new = with_word_times(line, start) if word_times else line
        for first, last, shown in ((start, end, [above, new]), (end, end + 0.01, [line, padding])):
            text += f"{clock(first)} --> {clock(last)} align:start position:0%\n"
            text += "\n".join(line for line in shown if line) + "\n\n"
        above = line
    return text


def growing() -> str:
    """Live captions, word by word, in cues of a fifth of a second."""
    text = "WEBVTT\n\n"
    for line, start, _ in SPOKEN:
        words = line.split()
        for number in range(len(words)):
            first = start + 0.2 * number
            text += f"{clock(first)} --> {clock(first + 0.2)}\n{' '.join(words[: number + 1])}\n\n"
    return text


@pytest.mark.parametrize("language", ["en", "pt", "ja"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("padded.vtt", youtube(" ", True)),
        ("bare.vtt", youtube("", True)),
        ("plain.vtt", youtube(" ", False)),
        ("converted.srt", youtube("", False).replace(".", ",").replace("align:start position:0%", "")),
        ("saved as.txt", youtube(" ", True)),
    ],
)
def test_captions_that_roll_give_each_word_once_at_its_time(tmp_path, name, content, language):
    assert cues_of(tmp_path / name, content, language) == [
        (text, pytest.approx(start), pytest.approx(end)) for text, start, end in SPOKEN
    ]


def test_captions_that_grow_give_each_word_once(tmp_path):
    found = cues_of(tmp_path / "a.vtt", growing())
    assert " ".join(text for text, _, _ in found) == " ".join(LINES)
    assert [start for _, start, _ in found] == sorted(start for _, start, _ in found)


def test_speech_that_repeats_itself_does_not_roll(tmp_path):
    said = ["No.", "No.", "No!", "The king is dead.", "The king is dead. Long live the king."]
    times = [f"{clock(2 * n, ',')} --> {clock(2 * n + 2, ',')}" for n in range(len(said) + 8)]
    more = [f"Sentence number {n}." for n in range(8)]
    blocks = [f"{n}\n{time}\n{text}\n" for n, (time, text) in enumerate(zip(times, said + more), 1)]
    assert [text for text, _, _ in cues_of(tmp_path / "a.srt", "\n".join(blocks))] == said + more


# Programs and their forms of subtitles


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.srt", SRT),
        ("a.vtt", VTT),
        ("htk.lab", HTK),
        ("audacity.lab", AUDACITY),
        ("praat.TextGrid", GRID),
        ("youtube.sbv", "0:00:01.500,0:00:03.250\nGood morning.\n\n0:00:04.000,0:00:05.500\nHow are\nyou?\n"),
        (
            "zoom.vtt",
            "WEBVTT\r\n\r\n1\r\n00:00:01.500 --> 00:00:03.250\r\n"
            "Anna Smith: Good morning.\r\n\r\n"
            "2\r\n00:00:04.000 --> 00:00:05.500\r\nAnna Smith: How are you?\r\n",
        ),
        (
            "teams.vtt",
            "WEBVTT\n\nb4c1/12-0\n00:00:01.500 --> 00:00:03.250\n"
            "<v Anna Smith>Good morning.</v>\n\n"
            "b4c1/12-1\n00:00:04.000 --> 00:00:05.500\n<v Ben>How are\nyou?</v>\n",
        ),
        (
            "premiere.srt",
            "\ufeff1\r\r\n00:00:01,500 --> 00:00:03,250\r\r\n"
            "<font color=#FFFFFF>Good morning.</font>\r\r\n\r\r\n"
            "2\r\r\n00:00:04,000 --> 00:00:05,500\r\r\nHow are you?\r\r\n",
        ),
        (
            "no blank lines.srt",
            "1\n00:00:01,500 --> 00:00:03,250\nGood morning.\n2\n00:00:04,000 --> 00:00:05,500\nHow are you?",
        ),
        (
            "otter.srt",
            "1\n00:00:01,500 --> 00:00:03,250\nSpeaker 1: Good morning.\n\n2\n"
            "00:00:04,000 --> 00:00:05,500\nHow are you?\n",
        ),
        (
            "television.srt",
            "1\n00:00:01,500 --> 00:00:03,250\n{\\an8}ANNA: Good\nmorning.\n\n2\n"
            "00:00:03,300 --> 00:00:03,900\n[SOFT\nMUSIC]\n\n"
            "3\n00:00:04,000 --> 00:00:05,500\n♪♪\n- (sighs) How are you? ♪\n",
        ),
        (
            "news.vtt",
            "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000\n\nSTYLE\n::cue { color: red }\n\n"
            "NOTE by\nhand\n\n00:01.500 --> 00:03.250\n"
            "&gt;&gt; BEN: Good morning.\n\nNOTE\nmore\n\n"
            "00:04.000 --> 00:05.500 line:0\n&gt;&gt;&gt; How are you?\n",
        ),
        (
            "whisper.json",
            json.dumps(
                {
                    "text": " Good morning. How are you?",
                    "segments": [
                        {"id": 0, "start": 1.5, "end": 3.25, "text": " Good morning."},
                        {"id": 1, "start": 4, "end": 5.5, "text": " How are you?", "words": []},
                    ],
                }
            ),
        ),
        (
            "whisper.cpp.json",
            json.dumps(
                {
                    "systeminfo": "",
                    "transcription": [
                        {
                            "timestamps": {"from": "00:00:01,500", "to": "00:00:03,250"},
                            "offsets": {"from": 1500, "to": 3250},
                            "text": " Good morning.",
                        },
                        {"offsets": {"from": 4000, "to": 5500}, "text": " How are you?"},
                    ],
                }
            ),
        ),
        (
            "pipeline.json",
            json.dumps(
                {
                    "text": "",
                    "chunks": [
                        {"timestamp": [1.5, 3.25], "text": " Good morning."},
                        {"timestamp": [4.0, 5.5], "text": " How are you?"},
                    ],
                }
            ),
        ),
        (
            "list.json",
            json.dumps(
                [
                    {"start": 1.5, "end": 3.25, "text": "Good morning.", "speaker": "SPEAKER_00"},
                    {"start": 4.0, "end": 5.5, "text": "How are you?"},
                ]
            ),
        ),
        ("whisper.tsv", "start\tend\ttext\n1500\t3250\tGood morning.\n4000\t5500\tHow are you?\n"),
        ("seconds.tsv", "start\tend\ttext\r\n1.50\t3.25\tGood morning.\r\n4.00\t5.50\tHow are you?\r\n"),
        (
            "audacity.txt",
            "1.500000\t3.250000\tGood morning.\n\\\t100.000000\t4000.000000\n"
            "4.000000\t5.500000\tHow are you?\n\\\t-1.0\t9.0\n",
        ),
        ("german audacity.txt", "1,500000\t3,250000\tGood morning.\n4,000000\t5,500000\tHow are you?\n"),
        ("spectral.lab", "1.5\t3.25\tGood morning.\n\\\t100.0\t4000.0\n4.0\t5.5\tHow are you?\n"),
    ],
)
def test_each_program_s_form(tmp_path, name, content):
    assert cues_of(tmp_path / name, content) == TWO


@pytest.mark.parametrize(
    "content",
    [
        "Speaker 1  0:00\nGood morning.\n\nAnna Smith  0:03\nHow are you?\n",
        "0:00\nGood morning.\n0:03\nHow are you?\n",
        "[00:00:01] Good morning.\n\n[00:00:04] How are you?\n",
        "00:00:01.500 --> 00:00:03.250\nGood morning.\n\n00:00:04.000 --> 00:00:05.500\nHow are you?\n",
        "ANNA: Good morning.\n\nBEN: How are you?\n",
        "[00:00:01] Anna: Good\nmorning.\n[00:00:04] Anna: How are you?\n[00:00:06] [laughs]\n",
        "Anna: Good morning.\nAnna: How are you?\n",
        "[Music]\n\n&quot;Good morning.&quot; [laughs]\n\nHow are you?\n",
    ],
    ids=[
        "otter",
        "copied from a page",
        "times before lines",
        "subtitles",
        "names",
        "times and names",
        "a name a line",
        "tags",
    ],
)
def test_transcripts_of_programs_as_plain_text(tmp_path, content):
    found = cues_of(tmp_path / "a.txt", content)
    said = " ".join(text for text, _, _ in found).replace('"', "")
    assert said == "Good morning. How are you?"


@pytest.mark.parametrize(
    "text",
    [
        "He left at 12:30. (See page 5.)",
        "[pause:500ms] Go on. [voice:ben] No! [/voice]",
        "5 10 15 20",
        "Remember: the shop is closed. It was [sic] wrong.",
    ],
)
def test_ordinary_text_stays(tmp_path, text):
    assert [cue[0] for cue in cues_of(tmp_path / "a.txt", text)] == [text]


def test_what_is_left_out_is_named(tmp_path):
    notes = list[str]()
    (tmp_path / "a.srt").write_text(
        "1\n00:00:01,500 --> 00:00:03,250\nANNA: [laughs] Good morning.\n\n"
        "2\n00:00:04,000 --> 00:00:05,500\n[laughs] How are you?\n"
    )
    assert [cue.text for cue in read(tmp_path / "a.srt", notes=notes)] == [cue[0] for cue in TWO]
    assert notes == ["a.srt: 3 tags are not spoken and left out of the texts: [laughs] (2), ANNA:."]


@pytest.mark.parametrize(
    ("lines", "language", "joined"),
    [
        (["still burn-", "ing and a nega-", "tive"], "en", "still burning and a negative"),
        (
            ["a well-", "known self-", "help book, one-to-", "one"],
            "en",
            "a well-known self-help book, one-to-one",
        ),
        (
            ["from 1914-", "1918, an Anglo-", "Saxon e-", "mail"],
            "en",
            "from 1914-1918, an Anglo-Saxon e-mail",
        ),
        (
            ["two- ", "and three-year-olds, some-", "thing -", "else --", "here"],
            "en",
            "two- and three-year-olds, something - else -- here",
        ),
        (
            ["der Don-", "ner, Vor-", "und Nachteile, Nord-", "Süd"],
            "de",
            "der Donner, Vor- und Nachteile, Nord-Süd",
        ),
        (["la ca-", "sa blan-", "ca"], "es", "la casa blanca"),
        (["co\u00ad", "operate chil¬", "dren"], "en", "cooperate children"),
    ],
)
def test_words_divided_at_the_ends_of_lines_are_whole(tmp_path, lines, language, joined):
    assert [cue[0] for cue in cues_of(tmp_path / "a.txt", "\n".join(lines), language)] == [joined]
