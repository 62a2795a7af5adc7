# shellcheck shell=bash
# What every script shares: where things live, and how to speak to the person at the terminal.
# Sourced, never run.

set -euo pipefail

HERMOD_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
HERMOD_CACHE="${HERMOD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hermod}"
# Build products are not shared between checkouts: cargo tells path crates apart by their place in the workspace only, and would take
# another checkout's newer build for this one's.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HERMOD_ROOT/target}"

WASM_BINDGEN_VERSION=0.2.129
WORKER_BUILD_VERSION=0.8.7
# The compiler of the bundle. Debian's packages and rustup's pinned toolchain are this version or newer.
WASM_RUST_VERSION=1.96.0
NODE_MINIMUM="22.12.0"

say() { printf '%s\n' "$*" >&2; }
step() { printf '==> %s\n' "$*" >&2; }
# fail MESSAGE [WHAT TO DO NEXT]...
fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Prints the comment block at the top of a script as its help.
print_help() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$1"; }

# version_at_least HAVE WANT
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# as_root COMMAND...: runs it as root if this user may, fails otherwise.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    return 1
  fi
}

# run_logged NAME COMMAND...: quiet while it works, the end of its output when it does not.
run_logged() {
  local name="$1" log
  shift
  mkdir -p "$HERMOD_CACHE/logs"
  log="$HERMOD_CACHE/logs/$name.log"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 25 "$log" >&2
    return 1
  fi
}

apt_install() {
  have apt-get || return 1
  run_logged apt as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" && return 0
  run_logged apt as_root apt-get update || return 1
  run_logged apt as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
