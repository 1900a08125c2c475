# Shared by the scripts: what is needed, how it is installed, how a preset is
# built. To be sourced by bash from the root of the project.
set -euo pipefail

# Without these nothing is built. libsodium is linked in, so users do not need it.
needed_packages=(build-essential cmake ninja-build pkg-config libsodium-dev libcmocka-dev)
# With these more is built and tried; a line is a group.
optional_packages=(
  libpmix-dev libhwloc-dev libibverbs-dev librdmacm-dev    # compiled in: PMIx start-up, hwloc, RDMA
  openmpi-bin mpich                                        # launchers that are not ours: PMIx, PMI-1
  iproute2 python3 libxml2-utils groff-base                # hosts that are namespaces; what measures, draws and checks
  abigail-tools                                            # compares the binary interface with the stored one
  python3-numpy                                            # arrays for the package for Python, which needs none
)
# For the tests of tutti.torch: 140 MB, so it is a group of its own, and without it the rest goes on.
torch_packages=(python3-torch)
docs_packages=(mkdocs mandoc)
clang_packages=(clang lld)
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

debian_mirror() { # the one that this machine uses
  local found
  found=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null) || true
  echo "${found:-http://deb.debian.org/debian}"
}

# unpack_packages FOLDER ARCHITECTURE SUITE PACKAGE...: unpacks packages in a folder, unless it is there; SUITE "" is this
# machine's. They are not installed: that would tie this machine's own libraries to the versions of the others. Needs no
# rights.
unpack_packages() {
  local folder=$1 architecture=$2 suite=$3 apt=$PWD/$1.apt deb
  shift 3
  [ ! -d "$folder" ] || return 0
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/root"
  local quiet=(apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture"
    -o Dir::State="$apt" -o Dir::State::status=/dev/null -o Dir::Cache="$apt" -o APT::Sandbox::User=root
    -o Acquire::http::Timeout=20)
  [ -z "$suite" ] || {
    echo "deb $(debian_mirror) $suite main" > "$apt/sources"
    quiet+=(-o Dir::Etc::SourceList="$apt/sources" -o Dir::Etc::SourceParts=/dev/null
      -o Acquire::Check-Valid-Until=false)
  }
  "${quiet[@]}" update || return 1
  (cd "$apt/archives" && "${quiet[@]}" download "$@") || return 1
  for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$apt/root" || return 1; done
  find "$apt/root" -lname '/*' | while read -r link; do # links that would lead out of the folder
    ln -sfnr "$apt/root$(readlink "$link")" "$link"
  done
  mv "$apt/root" "$folder"
  rm -rf "$apt"
}

# As install_packages, for the preset aarch64.
install_aarch64() {
  [ "${INSTALL:-yes}" != no ] || return 0
  [ "$(uname -m)" != aarch64 ] || return 0
  command -v apt-get > /dev/null || return 1
  install_packages "${aarch64_packages[@]}" &&
    unpack_packages "$aarch64_sysroot" arm64 "" "${aarch64_libraries[@]}"
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

# make_root SUITE FOLDER PACKAGE...: fills a folder with a small Debian of another suite and these packages; one that is
# there already stays as it is. Needs root and the network.
make_root() {
  local suite=$1 folder=$2
  shift 2
  [ ! -e "$folder/.complete" ] || return 0
  install_packages debootstrap || return 1
  rm -rf --one-file-system "$folder"
  mkdir -p "$folder"
  say "Making a Debian $suite in $folder (minutes, needs the network)"
  debootstrap --variant=minbase "$suite" "$folder" "$(debian_mirror)" > "$folder.log" 2>&1 ||
    { tail -n 5 "$folder.log"; return 1; }
  cp /etc/resolv.conf /etc/hosts "$folder/etc/"
  local valid=true # a mirror of an older day is accepted where this machine accepts one
  eval "$(apt-config shell valid Acquire::Check-Valid-Until)"
  local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=20 -o APT::Sandbox::User=root
    -o Acquire::Check-Valid-Until="$valid")
  [ $# -eq 0 ] || {
    in_root "$folder" "${quiet[@]}" update &&
      in_root "$folder" "${quiet[@]}" install -y --no-install-recommends "$@" && rm -rf "$folder"/var/cache/apt/*
  } >> "$folder.log" 2>&1 || { tail -n 5 "$folder.log"; return 1; }
  touch "$folder/.complete"
}

# in_root FOLDER COMMAND...: runs a command in such a folder. It sees the project where it is, with no other file of this
# machine, and its mounts end with it. NAME=VALUE may stand before the command.
in_root() {
  local folder=$1
  shift
  mkdir -p "$folder$PWD"
  unshare --mount sh -c '
    root=$1 place=$2
    shift 2
    mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
      mount --bind "$place" "$root$place" || exit
    exec chroot "$root" /usr/bin/env -i -C "$place" HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
  ' in_root "$folder" "$PWD" "$@"
}

# What the virtual machine with verbs devices needs: a kernel and an emulator among it.
install_rdma() {
  [ "${INSTALL:-yes}" != no ] || return 0
  [ "$(id -u)" = 0 ] || { tests/rdma/run-in-vm --check; return; }
  tests/rdma/run-in-vm --install --check
}

jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

# build_preset PRESET [TARGET...]: configures and builds build/PRESET.
build_preset() {
  configure_preset "$1"
  build_targets "$@"
}

configure_preset() { # PRESET; CONFIGURE adds options
  mkdir -p build
  # shellcheck disable=SC2086
  cmake --preset "$1" ${CONFIGURE:-} > "build/$1.log" 2>&1 || { cat "build/$1.log"; return 1; }
}

build_targets() { # PRESET [TARGET...]
  local preset=$1 target targets=()
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}"
}

# test_targets PRESET CTEST OPTION...: what the tests need that ctest takes with these options: all that is built without
# tests, and their programs. The preset is configured. With a sanitizer nothing is installed: no manual is made.
test_targets() {
  local folder=build/$1
  shift
  printf '%s\n' tutti {src/nccl,tools,perf,examples}/all
  grep -q '^TUTTI_SANITIZE:STRING=.' "$folder/CMakeCache.txt" || echo cmake/all
  ctest --test-dir "$folder" -N "$@" | awk '
    FILENAME == "-" { if (/^ *Test +#/) is_asked[$NF] = 1; next }
    $1 in is_asked { print $2 }' - "$folder/tests/needs" | sort -u
}

# run_tests FOLDER [OPTION...]: the tests of a build folder, by ctest with these options; `runner` stands before it. With
# AGAIN=yes the few that fail are run a second time, one by one, and those that then pass are unstable, which is no
# failure, unless a sanitizer has reported something: that is an error however seldom it is seen. FOLDER/test-summary
# gets ctest's line, then a line for each test that is FAILED, unstable or skipped, with the reason; FOLDER/test-unstable
# both outputs of the unstable ones.
runner=()
run_tests() {
  local folder=$1 line name result=0 unstable=()
  local log=$folder/Testing/Temporary/LastTest.log first=$folder/test-first.log said=$folder/test-output
  shift
  rm -f "$folder"/test-{summary,unstable,output} "$first"
  call_ctest "$folder" "$@" 2>&1 | tee "$said" || result=$?
  line=$(grep 'tests passed' "$said" | tail -n 1) || line="ctest did not finish"
  tests_listed "$said" Skipped | while read -r name; do
    echo "  skipped $name: $(test_said "$log" "$name" | why_skipped)"
  done > "$folder/test-skipped"

  local failed again=()
  mapfile -t failed < <(tests_listed "$said" FAILED)
  if [ $result -ne 0 ] && [ "${AGAIN:-no}" = yes ] && [ ${#failed[@]} -gt 0 ] && [ ${#failed[@]} -le 5 ]; then
    say "Once more, one by one: ${failed[*]}"
    cp "$log" "$first"
    result=0
    call_ctest "$folder" --rerun-failed -j 1 2>&1 | tee "$said.again" || result=$?
    mapfile -t again < <(tests_listed "$said.again" FAILED)
    grep -q 'tests passed' "$said.again" || again=("${failed[@]}")
    for name in "${failed[@]}"; do
      case " ${again[*]} " in *" $name "*) continue ;; esac
      if [ "$(test_said "$first" "$name" | grep -cE 'Sanitizer: |: runtime error: ')" -gt 0 ]; then
        again+=("$name")
        result=1
        continue
      fi
      unstable+=("$name")
      printf '\n-- unstable: %s failed, and said:\n%s\n' "$name" "$(test_said "$first" "$name" | tail -n 100)"
      printf -- '-- then it passed, and said:\n%s\n' "$(test_said "$log" "$name" | tail -n 100)"
    done > "$folder/test-unstable"
    failed=("${again[@]}")
    [ $result -ne 0 ] || line="100% tests passed, 0 tests failed out of ${line##* }, ${#unstable[@]} of them at the second try"
    rm -f "$first" "$said.again"
  fi
  {
    echo "$line"
    for name in "${failed[@]}"; do echo "  FAILED $name"; done
    for name in "${unstable[@]}"; do echo "  unstable $name: failed, then passed by itself"; done
    cat "$folder/test-skipped"
  } > "$folder/test-summary"
  rm -f "$folder/test-skipped"
  return $result
}

call_ctest() { # FOLDER OPTION...
  local folder=$1
  shift
  "${runner[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@"
}

# tests_listed OUTPUT FAILED|Skipped: names in the lists at the end of what ctest said.
tests_listed() {
  awk -v kind="$2" '
    /^The following tests/ { listed = / FAILED:/ ? "FAILED" : "other" }
    /^\t *[0-9]+ - / && ((kind == "FAILED" && listed == kind) || (listed == "other" && $NF == "(" kind ")")) { print $3 }
  ' "$1"
}

test_said() { # LOG NAME: what the test wrote, from ctest's log
  awk -v name="$2" '
    / Testing: / { is_it = $NF == name; lines = 0 }
    /^<end of output>/ { is_it = 0 }
    is_it && /^Output:$/ { lines = 1; next }
    is_it && lines && lines++ > 1' "$1"
}

why_skipped() { # what a test wrote -> its reason, in a line
  awk '/[^ ]/ { last = $0 } sub(/^skipped: */, "") { why = $0 } END { print why ? why : last }'
}
