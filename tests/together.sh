#!/bin/sh
# A test program that loads libtorch starts in 0.25 s, and most of its cases run in a hundredth of that. So ctest has
# many of them run in one process first, and a case's own entry says what was said of it there:
#   together.sh --into LOG PROGRAM ...              runs many, and keeps what they say
#   together.sh PROGRAM --gtest_filter=CASE ...     one case; in a process of its own where this ctest ran it in no other
set -u
# a log begins with the ctest that it is of, by number and start: what another one kept counts for nothing
ctest="ctest $PPID $(cut -d ' ' -f 22 "/proc/$PPID/stat")"

if [ "$1" = --into ]; then
  log=$2
  shift 2
  echo "$ctest" >"$log"
  echo "a case that failed says so by its own entry; the whole: $log"
  exec "$@" >>"$log" 2>&1
fi

name=${2#--gtest_filter=}
# 0: it held; 1: it failed, or the process ended within it; 2: it was not run
awk -v ctest="$ctest" -v name="$name" '
  function said(outcome) { return index($0, outcome name " (") || index($0, outcome name ",") }
  BEGIN { status = 2; begin = "[ RUN      ] " name }
  FNR == 1 { if (status == 1) exit; ours = $0 == ctest; next }
  # behind what a case before it left without an end of line
  ours && substr($0, length($0) - length(begin) + 1) == begin { status = 1 }
  status == 1 { print }
  status == 1 && (said("[       OK ] ") || said("[  SKIPPED ] ")) { status = 0; exit }
  status == 1 && said("[  FAILED  ] ") { exit }
  END { exit status }' "$1".part_*.log 2>/dev/null
status=$?
[ $status -ge 2 ] || exit $status
exec "$@"
