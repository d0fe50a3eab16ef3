"""README.md of a voice file: a model card that hubs read, and a page for a person.

All functions are pure. The front matter follows "Model card metadata" of
https://huggingface.co/docs/hub/model-cards. Hubs do not know XTTS-v2's licence, so it is `other`
with a name and a link.
"""

from collections.abc import Mapping

from xtts.download import xtts_v2 as published
from xtts.text.languages import short_code
from xtts.voices.files.manifest import SUFFIX, Consent, Kind, Manifest

_CONTENT_OF_KIND: Mapping[Kind, str] = {
    "latents": "the latents of a recording, for the base model below",
    "adapter": "an adapter of the base model below",
    "weights": "complete weights, which need no other file",
}
_CPML = ("coqui-public-model-license", "https://coqui.ai/cpml")


def render(manifest: Manifest, consent: Consent | None) -> str:
    """The content of README.md."""
    lines = ["---", *_front_matter(manifest), "---", "", f"# {_one_line(manifest.name)}", ""]
    lines += ["A voice for Sotaque. It imitates a person: use it only as that person allows.", ""]
    lines += [
        f"- Content: {_CONTENT_OF_KIND[manifest.kind]}",
        f"- Licence: {_one_line(manifest.licence_text)}",
        f"- Base model: {_one_line(manifest.base.name)}, SHA-256 `{manifest.base.sha256}`",
        f"- Languages: {', '.join(map(_one_line, manifest.languages))}",
        f"- Made: {_one_line(manifest.created)} by {_one_line(manifest.made_by)}",
    ]
    if manifest.preview is not None:
        lines.append(f"- `preview.wav` is synthetic speech: “{_one_line(manifest.preview.text)}”")
    lines += [f"- {row}" for row in _figure_rows(manifest.evaluation)]
    if consent is not None:
        lines += ["", "## Consent", ""]
        lines += ["As the maker of this file states it; nobody has verified it.", ""]
        lines += [f"- {key.capitalize()}: {_one_line(text)}" for key, text in vars(consent).items()]
    command = f'python -m xtts speak --voice FILE{SUFFIX} --text "Good morning." --out out.wav'
    return "\n".join([*lines, "", f"Speak with it: `{command}`", ""])


def _front_matter(manifest: Manifest) -> list[str]:
    is_published = manifest.base.sha256 == published.XTTS_V2["model.pth"].sha256
    if manifest.licence.startswith("LicenseRef-CPML") or is_published:
        licence = ["license: other", f"license_name: {_CPML[0]}", f"license_link: {_CPML[1]}"]
    elif manifest.licence.startswith("LicenseRef-"):
        licence = ["license: other", f"license_name: {_yaml_word(manifest.licence)}"]
    else:
        licence = [f"license: {manifest.licence.lower()}"]
    base = [f"base_model: {published.REPOSITORY}"] if is_published else []
    library = "coqui" if is_published else "sotaque"
    codes = dict.fromkeys(short_code(language) for language in manifest.languages)
    languages = [f"- {_yaml_word(code)}" for code in codes]
    return [
        *licence,
        *base,
        f"library_name: {library}",
        "pipeline_tag: text-to-speech",
        "language:",
        *languages,
        "tags:",
        "- xtts",
        "- voice-cloning",
    ]


def _figure_rows(evaluation: Mapping[str, object]) -> list[str]:
    """The figures of the evaluation, one line for each judge."""
    rows = []
    if isinstance(reason := evaluation.get("reason"), str) and reason:
        rows.append(f"Why these weights: {_one_line(reason)}")
    judges = evaluation.get("judges")
    for name, figures in judges.items() if isinstance(judges, dict) else ():
        if isinstance(figures, dict) and isinstance(figures.get("best"), int | float):
            base = figures.get("base")
            note = f" (base {base:.3g})" if isinstance(base, int | float) else ""
            rows.append(f"{_one_line(str(name))}: {figures['best']:.3g}{note}")
    return rows


def _one_line(text: str) -> str:
    """Text on one line, without Markdown that would begin a block or a tag."""
    return " ".join(text.split()).replace("<", "‹").replace("`", "'")


def _yaml_word(text: str) -> str:
    """A value of the front matter, which must not begin another key."""
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in text)
