# Shared by the scripts: what is needed, how it is installed, how a preset is
# built. To be sourced by bash from the root of the project.
set -euo pipefail

# Without these nothing is built. libsodium is linked in, so users do not need it.
needed_packages=(build-essential cmake ninja-build pkg-config libsodium-dev libcmocka-dev)
# With these more is built and tried: PMIx and PMI-1 start-up, hwloc, network namespaces, the manual.
optional_packages=(libpmix-dev libhwloc-dev openmpi-bin mpich iproute2 groff-base libibverbs-dev librdmacm-dev)
clang_packages=(clang)
# For AArch64 on another machine: the compiler, what runs its programs, and libraries in packages of that architecture.
aarch64_packages=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
aarch64_libraries=(libsodium-dev libcmocka-dev libcmocka0 libpmix-dev libhwloc-dev)
aarch64_sysroot=build/aarch64-sysroot

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

# Fills aarch64_sysroot. The packages are unpacked there, not installed: that would tie this machine's own libraries to
# the versions of the others. Needs no rights.
fetch_aarch64_sysroot() {
  [ ! -d "$aarch64_sysroot" ] || return 0
  local apt=$PWD/$aarch64_sysroot.apt deb
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/root"
  local quiet=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt"
    -o Dir::State::status=/dev/null -o Dir::Cache="$apt" -o APT::Sandbox::User=root -o Acquire::http::Timeout=20)
  "${quiet[@]}" update || return 1
  (cd "$apt/archives" && "${quiet[@]}" download "${aarch64_libraries[@]}") || return 1
  for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$apt/root" || return 1; done
  mv "$apt/root" "$aarch64_sysroot"
  rm -rf "$apt"
}

# As install_packages, for the preset aarch64.
install_aarch64() {
  [ "${INSTALL:-yes}" != no ] || return 0
  [ "$(uname -m)" != aarch64 ] || return 0
  command -v apt-get > /dev/null || return 1
  install_packages "${aarch64_packages[@]}" && fetch_aarch64_sysroot
}

# Why the preset aarch64 cannot be built here; nothing if it can.
aarch64_lacks() {
  [ "$(uname -m)" != aarch64 ] || { echo "this is an AArch64 machine: scripts/test tests it"; return; }
  local program
  for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $program > /dev/null || { echo "there is no $program"; return; }
  done
  [ -d "$aarch64_sysroot" ] || echo "there are no libraries in $aarch64_sysroot"
}

# What the virtual machine with verbs devices needs: a kernel and an emulator among it.
install_rdma() {
  [ "${INSTALL:-yes}" != no ] || return 0
  [ "$(id -u)" = 0 ] || { tests/rdma/run-in-vm --check; return; }
  tests/rdma/run-in-vm --install --check
}

jobs=$(nproc)

# build_preset PRESET [TARGET...]: configures (with what CONFIGURE adds) and builds build/PRESET.
build_preset() {
  local preset=$1 target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  mkdir -p build
  # shellcheck disable=SC2086
  cmake --preset "$preset" ${CONFIGURE:-} > "build/$preset.log" 2>&1 || { cat "build/$preset.log"; return 1; }
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}"
}
