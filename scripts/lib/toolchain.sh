# shellcheck shell=bash
# The compiler of the bundle and the two cargo tools around it. Sourced after common.sh and node.sh.
#
# The bundle unwinds: a panic costs one request, not the instance. That takes the standard library's source, which is
# built for wasm32 together with the program. worker-build asks for it as `cargo +nightly`; three small scripts put
# first on PATH answer with a pinned compiler instead, so that two machines build with the same one.

ensure_cargo() {
  have cargo || fail "cargo was not found." "Install Rust with rustup: https://rustup.rs/ (stable, default profile)."
  have cc || apt_install gcc libc6-dev ||
    fail "no C compiler (cc) was found." "Install one, for example: apt-get install gcc libc6-dev"
}

# ensure_cargo_tool CRATE VERSION BINARY
ensure_cargo_tool() {
  local root="$HERMOD_CACHE/tools/$1-$2"
  [ "$1" = wasm-bindgen-cli ] && root="$HERMOD_CACHE/tools/wasm-bindgen-$2"
  [ -x "$root/bin/$3" ] && return 0
  step "building $1 $2 once for this user (a few minutes)"
  run_logged "install-$1" env CARGO_TARGET_DIR="$HERMOD_CACHE/target/tools" \
    cargo install "$1" --version "$2" --locked --root "$root" ||
    fail "cargo install $1 failed." "The whole log: $HERMOD_CACHE/logs/install-$1.log"
}

# write_shims FOLDER CARGO RUSTC_COMMAND
write_shims() {
  mkdir -p "$1/bin"
  printf '#!/bin/sh\ncase "$1" in +*) shift ;; esac\nexec %s "$@"\n' "$3" >"$1/bin/rustc"
  printf '#!/bin/sh\ncase "$1" in +*) shift ;; esac\nexport RUSTC_BOOTSTRAP=1 RUSTC="%s"\nexec %s "$@"\n' \
    "$1/bin/rustc" "$2" >"$1/bin/cargo"
  printf '#!/bin/sh\necho "rust-src (installed)"\n' >"$1/bin/rustup"
  chmod +x "$1/bin/rustc" "$1/bin/cargo" "$1/bin/rustup"
}

# The normal way: rustup brings the compiler, the library's source and the target.
toolchain_from_rustup() {
  have rustup || return 1
  local cargo rustc
  step "asking rustup for Rust $WASM_RUST_VERSION with the library's source and wasm32"
  run_logged rustup timeout 900 rustup toolchain install "$WASM_RUST_VERSION" --profile minimal \
    --component rust-src --target wasm32-unknown-unknown 2>/dev/null || return 1
  cargo="$(rustup which cargo --toolchain "$WASM_RUST_VERSION")" || return 1
  rustc="$(rustup which rustc --toolchain "$WASM_RUST_VERSION")" || return 1
  write_shims "$1" "$cargo" "$rustc"
}

# Where rustup's server does not answer: Debian ships the same compiler and its library's source.
toolchain_from_debian() {
  local host llvm sysroot="$1/sysroot"
  if ! [ -d /usr/lib/rustlib/src/rust/library ] || ! [ -x /usr/bin/rustc ] || ! [ -x /usr/bin/cargo ]; then
    step "rustup's server does not answer; taking the compiler and its library's source from Debian"
    apt_install rustc-web cargo-web rust-web-src || return 1
  fi
  version_at_least "$(/usr/bin/rustc --version | cut -d' ' -f2)" "$WASM_RUST_VERSION" || return 1
  # The linker comes in packages of its own, numbered as the compiler's LLVM.
  if ! /usr/bin/rust-lld -flavor wasm --version >/dev/null 2>&1; then
    llvm="$(/usr/bin/rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')"
    apt_install rust-web-llvm "lld-$llvm" || return 1
    /usr/bin/rust-lld -flavor wasm --version >/dev/null || return 1
  fi
  host="$(/usr/bin/rustc -vV | sed -n 's/^host: //p')"
  mkdir -p "$sysroot/lib/rustlib/wasm32-unknown-unknown/lib"
  ln -sfn "/usr/lib/rustlib/$host" "$sysroot/lib/rustlib/$host"
  ln -sfn /usr/lib/rustlib/src "$sysroot/lib/rustlib/src"
  write_shims "$1" /usr/bin/cargo "/usr/bin/rustc --sysroot $sysroot"
}

# Sets HERMOD_WASM_TOOLCHAIN to the folder of the three scripts.
ensure_wasm_toolchain() {
  local route folder
  for route in rustup debian; do
    folder="$HERMOD_CACHE/tools/wasm-toolchain-$route-$WASM_RUST_VERSION"
    if [ -e "$folder/ready" ] && "$folder/bin/rustc" --version >/dev/null 2>&1; then
      HERMOD_WASM_TOOLCHAIN="$folder"
      return 0
    fi
  done
  for route in rustup debian; do
    folder="$HERMOD_CACHE/tools/wasm-toolchain-$route-$WASM_RUST_VERSION"
    if "toolchain_from_$route" "$folder" && "$folder/bin/rustc" --version >/dev/null; then
      touch "$folder/ready"
      say "    using $("$folder/bin/rustc" --version) by way of $route"
      HERMOD_WASM_TOOLCHAIN="$folder"
      return 0
    fi
  done
  fail "no compiler for the Wasm bundle." \
    "Tried: rustup toolchain install $WASM_RUST_VERSION --component rust-src --target wasm32-unknown-unknown" \
    "and Debian's packages rustc-web cargo-web rust-web-src rust-web-llvm lld-N ($WASM_RUST_VERSION or newer, needs root)." \
    "Make one of the two possible and run again. Logs: $HERMOD_CACHE/logs/"
}

# Exports what worker-build needs, so that it downloads nothing itself.
export_build_environment() {
  export WASM_BINDGEN_BIN="$HERMOD_CACHE/tools/wasm-bindgen-$WASM_BINDGEN_VERSION/bin/wasm-bindgen"
  export WASM_OPT_BIN="$HERMOD_ROOT/node_modules/.bin/wasm-opt"
  ESBUILD_BIN="$(ls "$HERMOD_ROOT"/node_modules/@esbuild/*/bin/esbuild | head -n 1)"
  export ESBUILD_BIN
  PATH="$HERMOD_WASM_TOOLCHAIN/bin:$HERMOD_CACHE/tools/worker-build-$WORKER_BUILD_VERSION/bin:$(dirname "$HERMOD_NODE"):$PATH"
  export PATH
}

ensure_bundle_tools() {
  ensure_cargo
  ensure_wasm_toolchain
  ensure_cargo_tool wasm-bindgen-cli "$WASM_BINDGEN_VERSION" wasm-bindgen
  ensure_cargo_tool worker-build "$WORKER_BUILD_VERSION" worker-build
}
