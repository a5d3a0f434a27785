#!/bin/bash
# Builds Maglev on a machine that has torch, nvcc, CMake and Ninja but no package registry.
#
#   bench/gpu/gather_and_build.sh gather    here: copies the C++ libraries of the system to .carry/
#   bench/gpu/gather_and_build.sh build     there, in this tree with .carry/: builds
#   bench/gpu/first_day.sh                  there: builds, checks everything on the GPU and measures
#
# build takes the name of a preset (default: cuda) and honours MAGLEV_TORCH, MAGLEV_CMAKE_ARGS and
# MAGLEV_JOBS. gather needs a Debian or Ubuntu with those packages (./maglev setup installs them);
# both machines need the same processor architecture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
carry=$PWD/.carry
packages=(libyaml-cpp-dev nlohmann-json3-dev libxxhash-dev libhwy-dev libgtest-dev libbox2d-dev
  zlib1g-dev)

gather() {
  local missing=() package file
  for package in "${packages[@]}"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
  if ((${#missing[@]})); then
    echo "[gather] missing: ${missing[*]}; run apt-get install -y ${missing[*]}" >&2
    exit 2
  fi
  rm -rf "$carry"
  mkdir -p "$carry"
  # headers, CMake packages and libraries, at the same places below .carry/usr; links stay links.
  # The libraries behind some links lie in packages of their own.
  local wanted='^/usr/(include/|share/cmake/|lib/.*(/cmake/|\.a$|\.so))'
  for file in $(dpkg -L "${packages[@]}" | grep -E "$wanted") \
    /usr/lib/*/libyaml-cpp.so* /usr/lib/*/libhwy.so* /usr/lib/*/libbox2d.so* /usr/lib/*/libz.so*; do
    [[ -d $file && ! -L $file ]] || echo "${file#/}"
  done | sort -u | tar -C / -c -T - | tar -C "$carry" -x --no-same-owner
  echo "gathered $(du -sh "$carry" | cut -f1) in .carry/"
}

build() {
  local preset=${1:-cuda} jobs memory_jobs
  if [[ $preset == -* ]]; then
    echo "[build] $preset is no preset: CMake's arguments go into MAGLEV_CMAKE_ARGS" >&2
    exit 2
  fi
  if [[ ! -d $carry/usr ]]; then
    echo "[build] .carry/ is missing: run $0 gather where the packages are, and bring it" >&2
    exit 2
  fi
  # 2.5 GB for each file with torch's headers
  memory_jobs=$(awk '/MemAvailable/ {print int($2 / 2500000)}' /proc/meminfo)
  jobs=${MAGLEV_JOBS:-$(nproc)}
  ((jobs <= memory_jobs)) || jobs=$((memory_jobs > 0 ? memory_jobs : 1))
  local arguments=(-DCMAKE_PREFIX_PATH="$carry/usr")
  [[ -z ${MAGLEV_TORCH:-} ]] || arguments+=(-DMAGLEV_TORCH="$MAGLEV_TORCH")
  # shellcheck disable=SC2086  # several arguments in one variable
  cmake --preset "$preset" "${arguments[@]}" ${MAGLEV_CMAKE_ARGS:-}
  cmake --build --preset "$preset" -j "$jobs"
}

case ${1:-} in
  gather) gather ;;
  build) shift; build "$@" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
