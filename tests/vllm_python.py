"""The Python that has the real vLLM for the CPU, with torch and Transformers."""

import os
from pathlib import Path

_ROOT = Path(__file__).parent.parent
VLLM_PYTHON = os.environ.get(
    "TRACEQL_VLLM_PYTHON", str(_ROOT / ".venv" / "vllm" / "bin" / "python")
)
