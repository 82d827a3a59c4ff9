#!/usr/bin/env bash
# The main job, offline, with the bundled model: ingest a report once, ask it twice.
# Usage: samples/demo.sh [CONDUIT]   (`make demo` gives the command that it has set up)
set -euo pipefail
conduit=$(realpath "${1:-$(command -v conduit)}")
cd "$(dirname "$0")"
export HF_HUB_OFFLINE=1 CONDUIT_MODEL=bundled
CONDUIT_STORE=$(mktemp -d)
export CONDUIT_STORE
trap 'rm -rf "$CONDUIT_STORE"' EXIT

run() {
  printf '\n$ conduit'
  printf ' %q' "$@"
  printf '\n'
  "$conduit" "$@"
}

run ingest report.pdf
run ask report.pdf 'What is the manager in Lisbon summary?'
run ask report.pdf 'What is the total?' --ratio 0.2
run ingest report.pdf
