"""The requests of other programs, as in their source, to our service.

Each follows the named file at the named commit; no line is copied. The real libraries run in
`tests/api/test_openai.py` and `tests/api/test_client_libraries.py`.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest

from tests.api.decoding import correlation, decoded
from tests.api.heard import asked, said, samples

TEXT = "Good morning, how did you sleep?"


@dataclass
class Talk:
    """What a client works with. voice: a listed name; voice_id: its id."""

    http: httpx.Client
    voice: str
    voice_id: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(path, headers=headers).raise_for_status()

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.http.post(path, json=body, **more).raise_for_status()

    def speech(self, **body: Any) -> httpx.Response:
        return self.post("/v1/audio/speech", {"input": TEXT, **body})

    def form(self, path: str, **fields: str) -> httpx.Response:
        return self.http.post(path, data=fields).raise_for_status()


@dataclass(frozen=True)
class TableRow:
    """source: repository, commit, file. ask: speaks TEXT and returns the sound. named: whether it
    chooses a voice."""

    name: str
    source: str
    ask: Callable[[Talk], bytes]
    kind: str = "wav"
    named: bool = True


def open_webui(talk: Talk) -> bytes:
    voices = {voice["id"]: voice["name"] for voice in talk.get("/v1/audio/voices").json()["voices"]}
    models = [model["id"] for model in talk.get("/v1/audio/models").json()["models"]]
    voice = next(identity for identity, name in voices.items() if name == talk.voice)
    return talk.speech(voice=voice, model=models[0]).content


def sillytavern_openai(talk: Talk) -> bytes:
    return talk.speech(voice=f" {talk.voice}", model="tts-1", response_format="mp3", speed=1).content


def sillytavern_xtts(talk: Talk) -> bytes:
    voices = {speaker["name"]: speaker["voice_id"] for speaker in talk.get("/speakers").json()}
    # Its sliders become texts once they are moved.
    sliders = {
        "temperature": "0.75",
        "speed": 1,
        "length_penalty": 1.0,
        "repetition_penalty": 5.0,
        "top_p": "0.85",
        "top_k": 50,
        "enable_text_splitting": True,
        "stream_chunk_size": "100",
    }
    talk.post("/set_tts_settings", sliders, headers={"Cache-Control": "no-cache"})
    body = {"text": TEXT, "speaker_wav": voices[talk.voice], "language": "en"}
    return talk.post("/tts_to_audio/", body, headers={"Cache-Control": "no-cache"}).content


def sillytavern_xtts_streaming(talk: Talk) -> bytes:
    voices = {speaker["name"]: speaker["voice_id"] for speaker in talk.get("/speakers").json()}
    query = {"text": TEXT, "speaker_wav": voices[talk.voice], "language": "en"}
    answer = talk.get(f"/tts_stream/?{urlencode(query)}")
    assert answer.history == [] and answer.headers["content-type"] == "audio/x-wav"
    return answer.content


ALLTALK_FORM = {
    "text_input": TEXT,
    "text_filtering": "standard",
    "narrator_enabled": "false",
    "narrator_voice_gen": "female_01.wav",
    "text_not_inside": "narrator",
    "language": "en",
    "output_file_name": "st_output",
    "output_file_timestamp": "true",
    "autoplay": "false",
    "autoplay_volume": "0.8",
}


def sillytavern_alltalk(talk: Talk) -> bytes:
    assert talk.get("/api/ready").text == "Ready"
    settings = talk.get("/api/currentsettings").json()
    assert settings["current_model_loaded"] in [model["name"] for model in settings["models_available"]]
    assert talk.voice in [voice.replace(".wav", "") for voice in talk.get("/api/voices").json()["voices"]]
    voice = {"character_voice_gen": f"{talk.voice}.wav"}
    told = talk.form("/api/tts-generate", **ALLTALK_FORM, **voice).json()
    assert told["output_file_url"].startswith(str(talk.http.base_url))
    return httpx.get(told["output_file_url"], trust_env=False).raise_for_status().content


def sillytavern_alltalk_streaming(talk: Talk) -> bytes:
    query = {"text": TEXT, "voice": f"{talk.voice}.wav", "language": "en", "output_file": "stream_output.wav"}
    return talk.get(f"/api/tts-generate-streaming?{urlencode(query)}").content


def alltalk_2(talk: Talk) -> bytes:
    assert talk.get("/api/rvcvoices").json()["rvcvoices"] == ["Disabled"]
    told = talk.form("/api/tts-generate", **ALLTALK_FORM, character_voice_gen=talk.voice).json()
    assert told["status"] == "generate-success" and told["output_file_url"].startswith("/audio/")
    return talk.get(told["output_file_url"]).content


def xtts_api_server_curl(talk: Talk) -> bytes:
    assert talk.voice in talk.get("/speakers_list").json()
    assert talk.get("/languages").json()["languages"]["English"] == "en"
    body = {"text": TEXT, "speaker_wav": f"{talk.voice}.wav", "language": "en"}
    return talk.post("/tts_to_audio/", body).content


def pipecat_xtts(talk: Talk) -> bytes:
    latents = talk.get("/studio_speakers").json()[talk.voice]
    body = {
        "text": TEXT,
        "language": "en",
        "speaker_embedding": latents["speaker_embedding"],
        "gpt_cond_latent": latents["gpt_cond_latent"],
        "add_wav_header": False,
        "stream_chunk_size": 20,
    }
    return talk.post("/tts_stream", body).content


def coqui_streaming_test(talk: Talk) -> bytes:
    speaker = talk.get("/studio_speakers").json()[talk.voice]
    body = {**speaker, "text": TEXT, "language": "en", "stream_chunk_size": "20"}
    return talk.post("/tts_stream", body).content


def coqui_streaming_demo(talk: Talk) -> bytes:
    speaker = talk.get("/studio_speakers").json()[talk.voice]
    kept = json.loads(json.dumps(speaker))
    answer = talk.post("/tts", {**kept, "text": TEXT, "language": "en"})
    return base64.b64decode(answer.json())


def coqui_page(talk: Talk) -> bytes:
    query = {"text": TEXT, "speaker_id": talk.voice, "style_wav": "", "language_id": "", "speaker_wav": ""}
    return talk.get(f"/api/tts?{urlencode(query)}").content


def coqui_headers(talk: Talk) -> bytes:
    answer = talk.http.post("/api/tts", headers={"text": TEXT, "speaker-id": talk.voice, "language-id": "en"})
    return answer.raise_for_status().content


def kokoro(talk: Talk) -> bytes:
    return talk.speech(
        model="kokoro",
        voice=talk.voice,
        response_format="wav",
        download_format=None,
        speed=1.0,
        stream=True,
        return_download_link=False,
        lang_code="a",
        volume_multiplier=1.0,
        normalization_options={"normalize": True},
    ).content


def vllm_omni(talk: Talk) -> bytes:
    return talk.speech(
        model=None,
        voice=talk.voice,
        instructions=None,
        response_format="pcm",
        speed=1.0,
        stream_format="audio",
    ).content


def sglang_omni(talk: Talk) -> bytes:
    return talk.speech(
        model=None,
        voice=talk.voice,
        response_format="wav",
        speed=1.0,
        stream=False,
        task_type=None,
        language="English",
        instructions=None,
        ref_audio=None,
        ref_text=None,
        references=None,
        max_new_tokens=None,
        temperature=None,
        top_p=None,
        top_k=None,
        repetition_penalty=None,
        seed=None,
        stage_params=None,
    ).content


def home_assistant_openai_tts(talk: Talk) -> bytes:
    headers = {"User-Agent": "HomeAssistant-OpenAI-TTS", "Authorization": "Bearer x"}
    body = {
        "model": "tts-1",
        "input": TEXT,
        "voice": talk.voice,
        "response_format": "mp3",
        "speed": 1.0,
        "instructions": "Speak calmly.",
        "extra_of_the_backend": 1,
    }
    return talk.post("/v1/audio/speech", body, headers=headers).content


def wyoming_openai(talk: Talk) -> bytes:
    assert talk.http.get("/v1/test").status_code == 404  # it is not Kokoro
    assert {"tts-1", "sotaque"} <= {model["id"] for model in talk.get("/v1/models").json()["data"]}
    return talk.speech(model="tts-1", voice=talk.voice, response_format="wav").content


def livekit(talk: Talk) -> bytes:
    body = {
        "input": TEXT,
        "model": "gpt-4o-mini-tts",
        "voice": talk.voice,
        "response_format": "pcm",
        "speed": 1.0,
        "stream_format": "sse",
    }
    sound, lines = b"", talk.post("/v1/audio/speech", body).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    for event in events[:-1]:
        sound += base64.b64decode(event.get("delta", "") or event.get("audio", ""))
    assert events[-1]["type"] == "speech.audio.done" and events[-1]["usage"]["input_tokens"]
    return sound


def pipecat_openai(talk: Talk) -> bytes:
    return talk.speech(model="gpt-4o-mini-tts", voice="alloy", response_format="pcm").content


def anything_llm(talk: Talk) -> bytes:
    return talk.speech(model="tts-1", voice=talk.voice_id).content


def anything_llm_kokoro(talk: Talk) -> bytes:
    voices = talk.get("/v1/audio/voices").json()["voices"]
    voice = next(voice["id"] for voice in voices if voice["name"] == talk.voice)
    return talk.speech(model="kokoro", voice=voice).content


def librechat(talk: Talk) -> bytes:
    body = {"input": TEXT, "model": "sotaque", "voice": talk.voice, "backend": "xtts"}
    headers = {"Authorization": "Bearer x"}
    return talk.post("/v1/audio/speech", body, headers=headers).content


SILLYTAVERN = "SillyTavern/SillyTavern {} public/scripts/extensions/tts/{}.js"
XTTS_API_SERVER = "daswer123/xtts-api-server 5e8bc93d xtts_api_server/server.py"
STREAMING_SERVER = "coqui-ai/xtts-streaming-server 99286c10 {}"
COQUI = "idiap/coqui-ai-TTS 7cde79ec TTS/server/server.py"
ANYTHING_LLM = "Mintplex-Labs/anything-llm 72aabbd1 server/utils/TextToSpeech/{}/index.js"
TABLE = [
    TableRow(
        "Open WebUI", "open-webui/open-webui 6adde203 backend/open_webui/routers/audio.py", open_webui, "mp3"
    ),
    TableRow(
        "SillyTavern, OpenAI Compatible",
        SILLYTAVERN.format("414e28b2", "openai-compatible"),
        sillytavern_openai,
        "mp3",
    ),
    TableRow("SillyTavern, XTTS", SILLYTAVERN.format("d72b5125", "xtts"), sillytavern_xtts),
    TableRow(
        "SillyTavern, XTTS, Streaming", SILLYTAVERN.format("d72b5125", "xtts"), sillytavern_xtts_streaming
    ),
    TableRow("SillyTavern, AllTalk", SILLYTAVERN.format("b5887960", "alltalk"), sillytavern_alltalk),
    TableRow(
        "SillyTavern, AllTalk, streaming",
        SILLYTAVERN.format("b5887960", "alltalk"),
        sillytavern_alltalk_streaming,
    ),
    TableRow("AllTalk 2's API", "erew123/alltalk_tts 7a59e9c2 tts_server.py", alltalk_2),
    TableRow("xtts-api-server's API", XTTS_API_SERVER, xtts_api_server_curl),
    TableRow(
        "pipecat, XTTSService",
        "pipecat-ai/pipecat acead050 src/pipecat/services/xtts/tts.py",
        pipecat_xtts,
        "pcm",
    ),
    TableRow(
        "pipecat, OpenAITTSService",
        "pipecat-ai/pipecat acead050 src/pipecat/services/openai/tts.py",
        pipecat_openai,
        "pcm",
        named=False,
    ),
    TableRow(
        "XTTS streaming server, its test",
        STREAMING_SERVER.format("test/test_streaming.py"),
        coqui_streaming_test,
    ),
    TableRow("XTTS streaming server, /tts", STREAMING_SERVER.format("server/main.py"), coqui_streaming_demo),
    TableRow("Coqui's server, its page", COQUI, coqui_page),
    TableRow("Coqui's server, by headers", COQUI, coqui_headers),
    TableRow(
        "Kokoro-FastAPI's clients", "remsky/Kokoro-FastAPI 26eec068 api/src/structures/schemas.py", kokoro
    ),
    TableRow(
        "vLLM-omni's clients",
        "vllm-project/vllm-omni be81443c vllm_omni/entrypoints/openai/protocol/audio.py",
        vllm_omni,
        "pcm",
    ),
    TableRow(
        "SGLang-omni's clients", "sgl-project/sglang-omni 2489a10e sglang_omni/serve/protocol.py", sglang_omni
    ),
    TableRow(
        "Home Assistant, openai_tts",
        "sfortis/openai_tts 5c8b3beb custom_components/openai_tts/openaitts_engine.py",
        home_assistant_openai_tts,
        "mp3",
    ),
    TableRow(
        "Home Assistant, wyoming_openai",
        "roryeckel/wyoming_openai 614b6dfa src/wyoming_openai/handler.py",
        wyoming_openai,
    ),
    TableRow(
        "LiveKit Agents",
        "livekit/agents da6af86a livekit-plugins/livekit-plugins-openai/livekit/plugins/openai/tts.py",
        livekit,
        "pcm",
    ),
    TableRow("AnythingLLM, OpenAI compatible", ANYTHING_LLM.format("openAiGeneric"), anything_llm, "mp3"),
    TableRow(
        "LibreChat",
        "danny-avila/LibreChat 00b3bc32 api/server/services/Files/Audio/TTSService.js",
        librechat,
        "mp3",
    ),
    TableRow("AnythingLLM, Kokoro", ANYTHING_LLM.format("kokoro"), anything_llm_kokoro, "mp3"),
]


def by_name(row: TableRow) -> str:
    return row.name


@pytest.mark.parametrize("row", TABLE, ids=by_name)
def test_a_client_hears_the_whole_text_in_the_voice_it_asked_for(row, dialect, anna):
    """Sample for sample if its format is lossless."""
    with asked() as orders:
        sound = row.ask(Talk(dialect.client, "Anna", anna))
    (params, recording), voices = orders[0], dialect.state.voices
    assert len(orders) == 1 and params.text == TEXT
    assert recording == (str(voices.reference_path(voices.find(anna))) if row.named else None)
    if row.kind == "mp3":
        assert len(decoded(sound)) / 24_000 == pytest.approx(len(TEXT) * 0.02, abs=0.12)
    else:
        assert (sound if row.kind == "pcm" else samples(sound)) == said(TEXT)


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE, ids=by_name)
def test_a_client_hears_the_embedded_voice(row, real):
    """The same samples as from /v1/audio/speech if the format is lossless."""
    body = {"input": TEXT, "response_format": "pcm"}
    whole = real.client.post("/v1/audio/speech", json=body).raise_for_status().content
    # Lists with an id for each voice show the name; where programs store the name, it is `default`.
    name = "demo" if row.ask in (open_webui, anything_llm_kokoro) else "default"
    sound = row.ask(Talk(real.client, name, "default"))
    if row.kind == "mp3":
        heard, expected = decoded(sound), np.frombuffer(whole, "<i2") / 32768
        # The delay of the encoder and the rest of its last frame: not a word less or more.
        assert 0 <= len(heard) - len(expected) <= 4_000
        assert correlation(heard, expected) > 0.99
    elif row.ask in (sillytavern_xtts, sillytavern_xtts_streaming, xtts_api_server_curl):
        assert len(samples(sound)) > 24_000  # at the temperature of the client's slider
    else:
        assert (sound if row.kind == "pcm" else samples(sound)) == whole
