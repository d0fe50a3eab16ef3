"""What Wyoming's clients are told of the voices, and which voice and language they mean.

Home Assistant sends the name of a voice and not the language that its user chose. So a model of
several languages has each of its voices once for each of them: `Anna (pt)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wyoming.info import Attribution, Info, TtsProgram, TtsVoice
from wyoming.tts import SynthesizeVoice

from api.voices.lookup import SERVED

VERSION = "1"
_ATTRIBUTION = Attribution("Sotaque", "")


@dataclass(frozen=True)
class VoiceListing:
    """A voice in a language, as it is listed. voice: its id; language: None where it has one."""

    voice: str
    language: str | None
    label: str


def listings_of(labels: Mapping[str, str], languages: Sequence[str]) -> dict[str, VoiceListing]:
    """What is listed, by name. labels: label -> id of every voice (`api.voices.lookup.labels`)."""
    if len(languages) < 2:
        return {label: VoiceListing(voice, None, label) for label, voice in labels.items()}
    return {
        f"{label} ({language})": VoiceListing(voice, language, label)
        for label, voice in labels.items()
        for language in languages
    }


def info_of(labels: Mapping[str, str], languages: Sequence[str], licence: str) -> Info:
    """The answer to `describe`."""
    voices = [
        TtsVoice(
            name=name, attribution=_ATTRIBUTION, installed=True, description=one.label,
            version=VERSION, languages=[one.language] if one.language else list(languages),
        )
        for name, one in listings_of(labels, languages).items()
    ]  # fmt: skip
    about = "Sotaque: a fine-tuned XTTS-v2"
    program = TtsProgram(
        name="sotaque", attribution=_ATTRIBUTION, installed=True, version=VERSION,
        description=f"{about} ({licence})" if licence else about, voices=voices,
        supports_synthesize_streaming=True,
    )  # fmt: skip
    return Info(tts=[program])


def wanted_of(
    asked: SynthesizeVoice | None, labels: Mapping[str, str], languages: Sequence[str]
) -> tuple[str, str | None]:
    """Voice, by id or by name, and language of a request; None leaves the language to the model."""
    if asked is None:
        return SERVED, None
    if asked.name is None:
        return SERVED, asked.language
    if (found := listings_of(labels, languages).get(asked.name)) is not None:
        return found.voice, found.language
    return asked.name, asked.language
