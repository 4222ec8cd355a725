#!/usr/bin/env bash
# Builds the sdist and the wheel into dist/ and tries both in clean environments.
# PYTHON makes these environments; BUILD has the package `build`.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rm -rf dist
"$BUILD" -m build --outdir dist .                   # the wheel is made from the sdist
"$BUILD" -m build --wheel --outdir "$scratch" .     # and here from the checkout
cmp dist/*.whl "$scratch"/*.whl

for package in "$PWD"/dist/*; do
    echo "== ${package##*/}"
    "$PYTHON" -m venv --clear "$scratch/environment"
    "$scratch/environment/bin/python" -m pip install --quiet --constraint constraints.txt "$package"
    (
        cd "$scratch"
        environment/bin/traceql --version
        environment/bin/traceql queries > queries.txt
        grep --quiet kernels.top queries.txt
        environment/bin/python -c 'from traceql.present.mcp.answers import all_definitions; assert all_definitions()'
        environment/bin/traceql demo -o demo.duckdb > demo.txt
        grep 'ledger: all' demo.txt
        environment/bin/traceql report demo.duckdb -o report.html
        grep --quiet '<svg' report.html
        if grep 'No picture' report.html; then exit 1; fi
        rm demo.duckdb
    )
done
