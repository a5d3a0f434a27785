#!/usr/bin/env bash
# Builds pendulum_ppo against a checkout of rl-tools:
#   build.sh SOURCE FOLDER ENVS ROLLOUT MINIBATCH openblas|mkl
# makes FOLDER/pendulum_ppo_<ENVS>_<library>. Uses the machine's OpenBLAS, else unpacks Debian's packages into
# FOLDER; MKL is the package of .venv-bench. Nothing is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
[ -f "$source/include/rl_tools/rl_tools.h" ] || {
  echo "rl-tools: $1 is no checkout of it: include/rl_tools/rl_tools.h is missing" >&2
  exit 1
}
compiler=${CXX:-c++}
blas=(-lopenblas)
backend=OPENBLAS
if [ "$6" = mkl ]; then
  backend=MKL
  mkl=$(cd "$here/../../../.venv-bench" && pwd)
  [ -f "$mkl/include/mkl.h" ] || {
    echo "rl-tools: no MKL: mkl-devel is missing in .venv-bench" >&2
    exit 1
  }
  blas=("-I$mkl/include" "-L$mkl/lib" -l:libmkl_rt.so.3 "-Wl,-rpath,$mkl/lib")
elif ! echo '#include <cblas.h>
int main() { openblas_set_num_threads(1); }' |
  "$compiler" -x c++ - -o "$folder/probe" "${blas[@]}" 2> /dev/null; then
  if [ ! -d "$folder/openblas" ]; then
    mkdir -p "$folder/debs"
    (cd "$folder/debs" && apt-get download -q libopenblas0-pthread libopenblas-pthread-dev libgfortran5) || {
      echo "rl-tools: no OpenBLAS: install libopenblas-dev" >&2
      exit 1
    }
    for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/openblas"; done
  fi
  machine=$("$compiler" -print-multiarch)
  library=$folder/openblas/usr/lib/$machine
  blas=("-I$folder/openblas/usr/include/$machine/openblas-pthread" "-L$library/openblas-pthread" -lopenblas
    # the old kind of path is also searched for what OpenBLAS itself needs
    "-Wl,--disable-new-dtags,-rpath,$library/openblas-pthread:$library,-rpath-link,$library")
fi
# -Ofast is what its own benchmark uses; its fast tanh, as ours has one
"$compiler" -std=c++17 -Ofast -march=native -DRL_TOOLS_BACKEND_ENABLE_$backend \
  -DRL_TOOLS_DISABLE_TENSORBOARD -DBENCH_ENVS="$3" -DBENCH_ROLLOUT="$4" -DBENCH_MINIBATCH="$5" \
  -DBENCH_FAST_TANH=1 "-I$source/include" "$here/pendulum_ppo.cpp" -o "$folder/pendulum_ppo_$3_$6" \
  "${blas[@]}" -lpthread
