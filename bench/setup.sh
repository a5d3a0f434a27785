#!/usr/bin/env bash
# Makes .venv-bench with the peers of bench/requirements.txt. A peer that cannot be had is named and
# left out; bench/run.py then measures the rest. Log: .venv-bench/setup.log.
set -u
cd "$(dirname "$0")/.."
venv=.venv-bench
python=${PYTHON:-python3}
[ -x $venv/bin/python ] || "$python" -m venv $venv || exit 1
log=$venv/setup.log
: > "$log"
pip() { $venv/bin/python -m pip --disable-pip-version-check --no-input "$@" >> "$log" 2>&1; }
pinned() { grep "^$1==" bench/requirements.txt; }

missing=0
lacks() {
  echo "bench: $1 is not available: $2"
  missing=1
}

# torch first, so that nothing else chooses its build
pip install "$(pinned torch)" numpy ||
  lacks torch "pip could not install $(pinned torch) (log: $log)"
for peer in stable-baselines3 envpool; do
  pip install "$(pinned $peer)" "$(pinned torch)" numpy "$(pinned gymnasium)" "$(pinned pyyaml)" ||
    lacks $peer "pip could not install $(pinned $peer) (log: $log)"
done

# PufferLib is published as source, and its set-up fetches more from the net and builds every game.
# Its cartpole is one header: pip only unpacks the source here, our driver is compiled against it.
program=$venv/puffer_cartpole
if [ ! -x $program ] || [ bench/peers/puffer_cartpole.c -nt $program ]; then
  unpacked=$venv/pufferlib
  rm -rf $unpacked && mkdir -p $unpacked
  # the package's own set-up step may fail after unpacking; only the unpacked source matters
  TMPDIR=$PWD/$unpacked NO_OCEAN=1 NO_TRAIN=1 \
    pip download --no-deps --no-clean --no-build-isolation -d $unpacked "$(pinned pufferlib)"
  header=$(find $unpacked -path '*/ocean/cartpole/cartpole.h' | head -1)
  if [ -z "$header" ]; then
    lacks pufferlib "pip could not unpack $(pinned pufferlib) (log: $log)"
  else
    raylib=$(echo $unpacked/*/*/raylib-*_linux_amd64)
    # -O2 -flto are the flags of the package's own set-up; raylib is only there to draw
    ${CC:-cc} -O2 -flto -DPLATFORM_DESKTOP -I"$(dirname "$header")" -I"$raylib/include" \
      bench/peers/puffer_cartpole.c -o $program "$raylib/lib/libraylib.a" -lm -lpthread -ldl \
      >> "$log" 2>&1 || lacks pufferlib "its cartpole.h did not compile (log: $log)"
  fi
fi
exit $missing
