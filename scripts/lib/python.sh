# shellcheck shell=bash
# Python programs that tests use, each version in a virtual environment of its own in the cache. Sourced after common.sh.

# ensure_python_package NAME VERSION: sets HERMOD_VENV to the folder of its environment.
ensure_python_package() {
  HERMOD_VENV="$HERMOD_CACHE/tools/$1-$2"
  [ -e "$HERMOD_VENV/installed" ] && return 0
  have python3 || fail "python3 was not found; the tests with $1 need it." "Install Python 3.10 or newer."
  step "installing $1 $2 into the cache"
  run_logged "$1" python3 -m venv "$HERMOD_VENV" || fail "no virtual environment could be made." "On Debian: apt-get install python3-venv"
  run_logged "$1" "$HERMOD_VENV/bin/pip" install --quiet "$1==$2" || fail "pip could not install $1."
  touch "$HERMOD_VENV/installed"
}
