# Shared by the scripts: what is needed, how it is installed, how a preset is
# built. To be sourced by bash from the root of the project.
set -euo pipefail

# Without these nothing is built. libsodium is linked in, so users do not need it.
needed_packages=(build-essential cmake ninja-build pkg-config libsodium-dev libcmocka-dev)
# With these more is built and tried: PMIx start-up, hwloc, network namespaces, the manual.
optional_packages=(libpmix-dev libhwloc-dev openmpi-bin iproute2 groff-base)
clang_packages=(clang)

say() { printf '\n== %s\n' "$*"; }

minutes() { # SECONDS in words
  if [ "$1" -lt 100 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi
}

missing_packages() { # PACKAGE... -> those that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}\n' "$package" 2> /dev/null | grep -q ' installed$' || echo "$package"
  done
}

# Installs what is missing; needs no network and no rights if nothing is, and does
# nothing with INSTALL=no. install_packages PACKAGE...; fails if one cannot be installed.
install_packages() {
  [ "${INSTALL:-yes}" != no ] || return 0
  command -v dpkg-query > /dev/null ||
    { echo "not a Debian system: please see that these are there: $*"; return 0; }
  local missing sudo=()
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "to install:" $missing "- run this as root" >&2; return 1; }
    sudo=(sudo)
  fi
  say "Installing" $missing "(about a minute, needs the network)"
  local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::http::Timeout=20)
  "${sudo[@]}" "${quiet[@]}" update &&
    "${sudo[@]}" "${quiet[@]}" install -y --no-install-recommends $missing > /dev/null < /dev/null
}

jobs=$(nproc)

# build_preset PRESET [TARGET...]: configures and builds build/PRESET.
build_preset() {
  local preset=$1 target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  mkdir -p build
  cmake --preset "$preset" > "build/$preset.log" 2>&1 || { cat "build/$preset.log"; return 1; }
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}"
}
