"""Makes the clips of the demo dataset; run by hand when a sentence changes.

    python -m train.data.make_demo

Every row of demo/metadata.csv is spoken by flite's voice `awb` (Debian package `flite`) and kept as
FLAC at the 16 kHz that flite speaks at. flite draws nothing at random: the same version makes the
same samples.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import soundfile

DEMO = Path(__file__).with_name("demo")
VOICE = "awb"
RATE = 16_000


def main() -> int:
    """Writes demo/wavs/*.flac for every row, and removes what has no row."""
    if shutil.which("flite") is None:
        print("flite is not installed. Install it with: apt-get install flite", file=sys.stderr)
        return 2
    rows = dict(
        line.split("|", 1)
        for line in (DEMO / "metadata.csv").read_text(encoding="utf-8").splitlines()
    )
    wavs = DEMO / "wavs"
    wavs.mkdir(exist_ok=True)
    for name, text in rows.items():
        speak(text, wavs / f"{name}.flac")
    for path in wavs.iterdir():
        if path.stem not in rows:
            path.unlink()
    size = sum(path.stat().st_size for path in wavs.iterdir())
    print(f"{len(rows)} clips, {size / 1e6:.1f} MB, in {wavs}")
    return 0


def speak(text: str, path: Path) -> None:
    """One sentence -> one FLAC file. Raises CalledProcessError when flite fails."""
    with tempfile.TemporaryDirectory() as folder:
        spoken = Path(folder) / "spoken.wav"
        subprocess.run(["flite", "-voice", VOICE, "-t", text, "-o", str(spoken)], check=True)
        samples, rate = soundfile.read(spoken, dtype="int16")
    if rate != RATE:
        raise ValueError(f"flite spoke at {rate} Hz; the demo dataset is kept at {RATE} Hz.")
    soundfile.write(path, samples, rate, format="FLAC", subtype="PCM_16")


if __name__ == "__main__":
    sys.exit(main())
