"""A stand-in for the command `vllm`: a server that is healthy, a benchmark that knows its times.

    python stand_in_vllm.py serve MODEL ... | bench serve ...

The environment variable STAND_IN says what goes wrong, in words with commas between them:
dies-at-start, dies-at:BATCH (the server), fails-at:BATCH, hangs-at:BATCH, kills-at:BATCH (the
process of the benchmarks), slow (a second for each point).
Each start of a server, each import for benchmarks and each point is a line of the file that
STAND_IN_LOG names.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from capture.experiment.vllm_command import FORKED, run_in_forks
from capture.processes import end_with_parent

BASE_S, PROMPT_S, STEP_S = 0.005, 0.00001, 0.002


def ttft_s(batch: int, prompt: int, seed: int) -> float:
    """Time to the first token: fixed, and per prompt token of the batch; 1% slower by seed."""
    return (BASE_S + PROMPT_S * batch * prompt) * (1 + seed / 100)


def itl_s(batch: int) -> float:
    """Time between tokens."""
    return STEP_S * (1 + batch / 100)


def note(line: str) -> None:
    if file := os.environ.get("STAND_IN_LOG"):
        with Path(file).open("a") as log:
            log.write(line + "\n")


def faults() -> dict[str, str]:
    words = filter(None, os.environ.get("STAND_IN", "").split(","))
    return {name: value for name, _, value in (word.partition(":") for word in words)}


def value_of(words: list[str], flag: str, default: str = "") -> str:
    return words[words.index(flag) + 1] if flag in words else default


def serve(words: list[str]) -> None:
    note(f"serve {value_of(words, '--tensor-parallel-size', '1')}")
    if "dies-at-start" in faults():
        print("ValueError: the stand-in was told to die", file=sys.stderr)
        sys.exit(3)
    server = HTTPServer(("127.0.0.1", int(value_of(words, "--port"))), _Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever(0.01)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()
        if self.path == "/die":
            os._exit(9)

    def log_message(self, format: str, *args: object) -> None:
        pass


def bench_latency(words: list[str]) -> None:
    batch, prompt, output = (
        int(value_of(words, f"--{name}")) for name in ("batch-size", "input-len", "output-len")
    )
    seconds = ttft_s(batch, prompt, 0) + itl_s(batch) * (output - 1)
    said = {"avg_latency": seconds, "latencies": [seconds] * 3}
    Path(value_of(words, "--output-json")).write_text(json.dumps(said))


def bench_serve(words: list[str]) -> None:
    requests, seed = int(value_of(words, "--num-prompts")), int(value_of(words, "--seed"))
    batch = min(requests, int(value_of(words, "--max-concurrency", str(requests))))
    prompt, output = (int(value_of(words, f"--random-{n}-len")) for n in ("input", "output"))
    note(f"bench {batch} {prompt} {output} seed {seed}")
    go_wrong(batch, value_of(words, "--base-url"))
    said = result(requests, batch, prompt, output, seed)
    folder = Path(value_of(words, "--result-dir"))
    (folder / value_of(words, "--result-filename")).write_text(json.dumps(said))


def go_wrong(batch: int, url: str) -> None:
    """What STAND_IN asks of a benchmark of this batch."""
    wrong = faults()
    if wrong.get("dies-at") == str(batch):
        urllib.request.urlopen(urllib.request.Request(f"{url}/die", method="POST"))
        time.sleep(0.5)
        sys.exit(1)
    if wrong.get("fails-at") == str(batch):
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB")
        sys.exit(1)
    if wrong.get("hangs-at") == str(batch):
        time.sleep(3600)
    if wrong.get("kills-at") == str(batch):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)
    if "slow" in wrong:
        time.sleep(1)


def result(requests: int, batch: int, prompt: int, output: int, seed: int) -> dict[str, Any]:
    """The JSON of `vllm bench serve --save-detailed`."""
    first, gap = ttft_s(batch, prompt, seed), itl_s(batch)
    whole = first + gap * (output - 1)
    duration = whole * requests / batch
    latencies = {"ttft": first, "tpot": gap, "itl": gap, "e2el": whole}
    return {
        "num_prompts": requests, "duration": duration, "completed": requests, "failed": 0,
        "total_input_tokens": requests * prompt, "total_output_tokens": requests * output,
        "request_throughput": requests / duration,
        "output_throughput": requests * output / duration,
        "total_token_throughput": requests * (prompt + output) / duration,
        "input_lens": [prompt] * requests, "output_lens": [output] * requests,
        "ttfts": [first] * requests, "itls": [[gap] * (output - 1)] * requests,
        "start_times": [time.perf_counter()] * requests, "generated_texts": ["t1"] * requests,
        "errors": [""] * requests,
    } | {
        f"{stat}_{name}_ms": 1e3 * seconds
        for name, seconds in latencies.items()
        for stat in ("mean", "median", "p90", "p99")
    }  # fmt: skip


def run() -> None:
    command, *words = sys.argv[1:]
    if command == "serve":
        serve(words)
    else:
        (bench_latency if words[0] == "latency" else bench_serve)(words)


def load() -> Callable[[], None]:
    note("import")
    return run


if __name__ == "__main__":
    end_with_parent()
    if sys.argv[1:] == [FORKED]:
        run_in_forks(load)
    else:
        run()
