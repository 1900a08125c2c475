# SPDX-License-Identifier: BSD-3-Clause
# Shared by the tests of libnccl.so.2; to be sourced by sh with $1 the source folder, $2 the build folder.
source=$1 binary=$2 here=$1/tests/nccl
library=$binary/nccl/libnccl.so.2
status=0
complain() { echo "FAILED: $*"; status=1; }
skip() { echo "skipped: $*"; exit 77; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$binary/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER) cxx=$(cached CMAKE_CXX_COMPILER) sanitize=$(cached TUTTI_SANITIZE)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -f "$library" ] || { echo "no $library"; exit 1; }

# A preloaded library stands before the sanitizer's, which has nothing to say against it here.
export ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}"

has() { # FLAGS: the header of NCCL 2.28 is found with them
  printf '#include <nccl.h>\n#if NCCL_VERSION_CODE != 22809\n#error another version\n#endif\n' |
    $cc -x c -fsyntax-only "$@" - 2> "$work/why"
}

# Where Python keeps what its packages of NVIDIA brought.
python_nvidia() {
  python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia")' 2> /dev/null || echo /nowhere
}

# The wheel has 300 MB, so it is fetched only where that is expected; only the headers stay.
fetch_header() { # FOLDER
  [ "${CI:-}" = true ] || [ "${TUTTI_TEST_DOWNLOADS:-}" = yes ] || return 0
  command -v pip3 > /dev/null && command -v python3 > /dev/null || { echo "cannot fetch: no pip3"; return 0; }
  echo "fetching nvidia-nccl-cu12==2.28.9"
  timeout 200 pip3 download -q --no-deps -d "$work/wheel" nvidia-nccl-cu12==2.28.9 > "$work/log" 2>&1 ||
    { tail -n 2 "$work/log"; return 0; }
  python3 -m zipfile -e "$work"/wheel/*.whl "$work/unpacked" && mkdir -p "$(dirname "$1")" &&
    cp -r "$work/unpacked/nvidia/nccl/include" "$1.$$" && mv -T "$1.$$" "$1"
  rm -rf "$work/wheel" "$work/unpacked"
}

# Sets $header to the flags that find NVIDIA's nccl.h of 2.28.9, or skips the test.
find_header() {
  python=$(python_nvidia) fetched=$binary/nccl-2.28.9/include
  case $binary in "$source"/build/*) fetched=$source/build/nccl-2.28.9/include ;; esac # for all presets
  look_for_header && return 0
  fetch_header "$fetched"
  look_for_header && return 0
  skip "no nccl.h of NCCL 2.28.9: install nvidia-nccl-cu12==2.28.9 with pip, set NCCL_HOME, or set" \
    "TUTTI_TEST_DOWNLOADS=yes to let this test fetch it (300 MB)"
}

# CUDA's headers are used where they are found; $cuda is no where they are not.
look_for_header() {
  for cuda in "" "-isystem /usr/local/cuda/include" "-isystem $python/cuda_runtime/include" no; do
    cuda_flags=$cuda
    [ "$cuda" != no ] || cuda_flags="-isystem $here/cuda"
    for folder in "" "${NCCL_HOME:+$NCCL_HOME/include}" "$python/nccl/include" "$fetched"; do
      header="${folder:+-isystem $folder} $cuda_flags"
      # shellcheck disable=SC2086
      ! has $header || return 0
    done
  done
  return 1
}
