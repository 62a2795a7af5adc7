# shellcheck shell=bash
# Python programs that tests use, each version in a virtual environment of its own in the cache. Sourced after common.sh.

# Debian keeps what makes an environment in a package of its own.
make_venv() {
  have python3 && run_logged venv python3 -m venv --clear "$1" 2>/dev/null && return 0
  step "Python 3 with venv is missing; trying the system's package manager"
  apt_install python3 python3-venv || true
  have python3 && run_logged venv python3 -m venv --clear "$1"
}

# ensure_python_package NAME VERSION: sets HERMOD_VENV to the folder of its environment.
ensure_python_package() {
  HERMOD_VENV="$HERMOD_CACHE/tools/$1-$2"
  [ -e "$HERMOD_VENV/installed" ] && return 0
  step "installing $1 $2 into the cache"
  make_venv "$HERMOD_VENV" || fail "no virtual environment of Python could be made; the tests with $1 need one." \
    "Install Python 3.10 or newer with venv, on Debian: apt-get install python3 python3-venv"
  run_logged "$1" "$HERMOD_VENV/bin/pip" install --quiet "$1==$2" || fail "pip could not install $1."
  touch "$HERMOD_VENV/installed"
}
