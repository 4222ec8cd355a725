"""outputs.jsonl: what was asked and what came back, one request a line."""

import json
from pathlib import Path

from capture.drive import Pass


def write_outputs(path: Path, profiled: Pass) -> None:
    with path.open("w") as file:
        for answer in profiled.answers:
            row = {
                "request_id": answer.request.request_id,
                "prompt": answer.request.prompt,
                "output_token_ids": answer.token_ids,
                "text": answer.text or None,
                "finish_reason": answer.finish_reason,
            }
            file.write(json.dumps(row) + "\n")
