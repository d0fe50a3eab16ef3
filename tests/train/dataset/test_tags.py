"""Tags of other tools in transcripts are left out and named; ordinary brackets and names stay."""

import pytest

from tests.train.dataset.test_metadata import notes, rows, written
from train.dataset.tags import decode_entities, without_speakers, without_tags

TAGS = [
    "[laughs]",
    "(coughs)",
    "*sighs*",
    "{breath}",
    "<laugh>",
    "[Music]",
    "[BREATH]",
    "(laughter)",
    "[laugh:1]",
    "{laughs}",
    "(clears throat)",
    "*laughs nervously*",
    "[soft piano music]",
    "(audience laughing)",
    "[lip_smack]",
    "[SPEAKER_01]",
    "[Speaker 2]",
    "[S1]",
    "[00:01:02]",
    "<|0.00|>",
    "[BLANK_AUDIO]",
    "[ __ ]",
    "[whispers]",
    "[risas]",
    "(lacht)",
    "[Gelächter]",
    "(rires)",
    "[música]",
    "[музыка]",
    "（笑）",
    "[音楽]",
    "[박수]",
    "【掌声】",
    "<unk>",
    "<i>",
    "♪",
    "[inaudible]",
    "[excited]",
    "(applause)",
]


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("text", ["{} We went home.", "We {} went home.", "We went home {}."])
def test_a_tag_is_no_word(tag, text):
    assert without_tags(text.replace("{}", tag)) == ("We went home.", [tag])


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("ANNA: We went home.", "We went home."),
        ("DR. SMITH (O.S.): We went home.", "We went home."),
        ("Speaker 1: We went home.", "We went home."),
        ("SPEAKER_00: We went home.", "We went home."),
        ("[SPEAKER_00]: We went home.", "We went home."),
        (">> We went home. >> No.", "We went home. No."),
        (">>> BEN: We went home.", "We went home."),
        ("<laughter>We went</laughter> home.", "We went home."),
        ("We went [laughs], home (coughs).", "We went, home."),
    ],
)
def test_speakers_and_signs_are_not_spoken(text, spoken):
    plain, found = without_tags(text)
    assert plain == spoken and found


@pytest.mark.parametrize(
    "text",
    [
        "He paid (see page 5) the bill.",
        "It was [sic] wrong.",
        "He [the king] left (in silence).",
        "NASA (the agency) flew.",
        "It was *very* good, and *silence* fell.",
        "2 * 3 * 4",
        "a < b and c > d, I <3 you",
        "[pause:500ms] Go on. [voice:ben] No! [/voice]",
        '<break time="1s"/> Go on.',
        "[style:whisper] Go on.",
        "CHAPTER 1: THE SHOP",
        "NOTE: It is late.",
        "It is 12:30.",
        "Remember: it is late.",
        "{HH AH0 L OW1}",
        "(He laughed at me.)",
        "(the music on the left)",
        "Verse [12] ends.",
        "C# and F#",
        "Go -> there",
    ],
)
def test_ordinary_text_stays(text):
    assert without_tags(text) == (text, [])


def test_names_before_colons_count_if_they_repeat():
    turns = ["Anna Smith: Hello.", "Ben: Yes?", "Anna Smith: No.", "It rained."]
    assert without_speakers(turns) == (
        ["Hello.", "Yes?", "No.", "It rained."],
        ["Anna Smith:", "Ben:", "Anna Smith:"],
    )
    prose = ["Remember: it is late.", "It rained.", "We left.", "Remember: they said.", "We ate."]
    assert without_speakers(prose) == (prose, [])


def test_names_in_captions_are_followed_by_sentences():
    """Some programs write a name only where the speaker changes."""
    cues = ["Anna: The lamp was burning.", "It rained.", "We left.", "Anna: Nobody came.", "He ate."]
    assert without_speakers(cues, captions=True)[1] == ["Anna:", "Anna:"]
    cues = ["Anna Smith: The lamp was burning.", "It rained.", "Remember: the door.", "We left."]
    assert without_speakers(cues, captions=True)[1] == ["Anna Smith:"]
    cues = ["Remember: the door.", "It rained.", "We left.", "He ate.", "Remember: the lamp."]
    assert without_speakers(cues, captions=True) == (cues, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don&#39;t &quot;no&quot; &amp; &lt;b&gt;", 'Don\'t "no" & <b>'),
        ("Don&#x27;t go,&nbsp;please&hellip;", "Don't go, please…"),
        ("Don&amp;#39;t", "Don't"),
        ("R&D at AT&T; a&b", "R&D at AT&T; a&b"),
    ],
)
def test_entities_are_characters(text, expected):
    assert decode_entities(text)[0] == expected


def test_transcripts_say_what_is_left_out(tmp_path):
    texts = ["ANNA: [laughs] We &amp; they left.", "We went [laughs] home (see page 5)."]
    written(tmp_path, "".join(f"a{n}|{text}\n" for n, text in enumerate(texts)))
    assert [row[1] for row in rows(tmp_path)] == ["We & they left.", "We went home (see page 5)."]
    assert notes(tmp_path) == [
        "HTML entities in the texts are read as characters: &amp;.",
        "Transcripts: 3 tags are not spoken and left out of the texts: [laughs] (2), ANNA:.",
    ]


def test_a_text_of_tags_alone_is_empty(tmp_path):
    written(tmp_path, "a|[laughs] *sighs*\nb|We went home.\n")
    assert [row[1] for row in rows(tmp_path)] == ["", "We went home."]
