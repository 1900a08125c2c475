# SPDX-License-Identifier: BSD-3-Clause
# Shared by what runs in the virtual machine; to be sourced by bash. A script is first run outside of it, takes its
# arguments there, and runs itself inside (`enter_vm`).
set -euo pipefail
rdma=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$rdma/../.." && pwd)
bin=$checkout/build/release/bin transport=verbs status=0

# common_option OPTION VALUE: 0 if it is one of these
common_option() {
  case $1 in
    --bin) bin=$(cd "$2" && pwd) ;;
    --transport) transport=$2 ;;
    *) return 1 ;;
  esac
}

skip() { echo "skipped: $*"; exit 77; }

# need PROGRAM...: those that were built
need() {
  local program
  for program in "$@"; do
    [ -x "$bin/$program" ] || { echo "$bin/$program is missing: build it first (scripts/test, or --bin DIR)"; exit 1; }
  done
}

# What is missing here: a skip.
need_vm() {
  local why
  why=$("$rdma/run-in-vm" --check 2>&1) || skip "${why#run-in-vm: }"
}

in_vm() { [ -n "${RDMA_VM:-}" ]; }

# check "what must be true" COMMAND...: says whether and how long it took; its output where it failed
check() {
  local what=$1 began=$SECONDS
  shift
  if "$@" > /tmp/output 2>&1; then
    echo "ok      $what ($((SECONDS - began)) s)"
  else
    echo "FAILED  $what ($((SECONDS - began)) s, exit status $?)"
    tail -n 60 /tmp/output
    status=1
  fi
}

# ranks N PROGRAM...: one rank after the other on the two devices, as on two hosts
ranks() {
  local n=$1
  shift
  "$bin/tutti" run -n "$n" -- "$rdma/on-device" "$@"
}
