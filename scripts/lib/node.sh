# shellcheck shell=bash
# Node.js and the npm packages. Sourced after common.sh.

ensure_npm() {
  have npm && return 0
  step "npm is missing; trying the system's package manager"
  apt_install npm || true
  have npm || fail "npm was not found." \
    "Install Node.js $NODE_MINIMUM or newer (it brings npm): https://nodejs.org/ or your system's package manager."
}

# The lock decides; nothing is done when the packages of this very lock are already there.
ensure_packages() {
  local want
  want="$(sha256sum "$HERMOD_ROOT/package-lock.json" | cut -d' ' -f1)"
  if [ "$(cat "$HERMOD_ROOT/node_modules/.hermod-lock" 2>/dev/null)" != "$want" ]; then
    ensure_npm
    step "installing npm packages (about 520 MB unpacked)"
    (cd "$HERMOD_ROOT" && run_logged npm-ci npm ci --ignore-scripts --no-audit --no-fund --prefer-offline) ||
      fail "npm ci failed." "Look above for the reason; the registry npm uses is: $(npm config get registry)"
    printf '%s\n' "$want" >"$HERMOD_ROOT/node_modules/.hermod-lock"
  fi
}

# Sets HERMOD_NODE: the packaged Node 22, or the system's when that is new enough.
ensure_node() {
  ensure_packages
  local candidate
  for candidate in "$HERMOD_ROOT"/node_modules/node-*/bin/node "$(command -v node || true)"; do
    if [ -x "$candidate" ] && version_at_least "$("$candidate" --version | tr -d v)" "$NODE_MINIMUM"; then
      HERMOD_NODE="$candidate"
      export HERMOD_NODE
      return 0
    fi
  done
  fail "no Node.js $NODE_MINIMUM or newer for this machine." "Install one from https://nodejs.org/ and run again."
}
