"""`python -m xtts.onnx.export_child FOLDER TO [CHECKPOINT]`: an export in a process of its own, for
`xtts.onnx.stage`; its last line on stderr is what went wrong."""

import sys
from pathlib import Path

from xtts.errors import SotaqueError


def main(folder: Path, to: Path, checkpoint: Path | None = None) -> int:
    """Exports; the sentence of a fault goes to stderr."""
    try:
        from xtts.atomic import sha256_of
        from xtts.onnx import export
        from xtts.runs import read_checkpoint, reference_beside

        if checkpoint is None:
            source = export.source_of_folder(folder)
        else:
            learned = read_checkpoint(checkpoint).model
            sha256, reference = sha256_of(checkpoint), reference_beside(checkpoint)
            source = export.Source(folder, sha256, learned, reference)
        export.export(source, to)
    except SotaqueError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
