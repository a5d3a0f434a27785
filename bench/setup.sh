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
for peer in stable-baselines3 sb3-contrib envpool; do
  pip install "$(pinned $peer)" "$(pinned torch)" numpy "$(pinned gymnasium)" "$(pinned pyyaml)" ||
    lacks $peer "pip could not install $(pinned $peer) (log: $log)"
done

pip install "$(pinned torchrl)" "$(pinned tensordict)" "$(pinned torch)" "$(pinned gymnasium)" ||
  lacks torchrl "pip could not install $(pinned torchrl) (log: $log)"
# what the checkout of the hockey environment imports
pip install "$(pinned Box2D)" "$(pinned gymnasium)" numpy ||
  lacks hockey "pip could not install $(pinned Box2D) (log: $log)"
pip install "$(pinned minatar)" numpy ||
  lacks minatar "pip could not install $(pinned minatar) (log: $log)"
pip install "$(pinned ale-py)" "$(pinned opencv-python-headless)" numpy ||
  lacks ale-py "pip could not install $(pinned ale-py) (log: $log)"
pip install "$(pinned mujoco)" "$(pinned dm_control)" ||
  lacks dm_control "pip could not install $(pinned dm_control) (log: $log)"
pip install "$(pinned tyro)" || lacks cleanrl "pip could not install $(pinned tyro) (log: $log)"

# the second library that rl-tools can be built with
pip install "$(pinned mkl-devel)" || lacks mkl "pip could not install $(pinned mkl-devel) (log: $log)"

# Sample Factory asks for older numpy and gymnasium than the others: it gets a house of its own. Of
# what it requires, those that its training imports.
factory=$venv/sample_factory
[ -x $factory/bin/python ] || "$python" -m venv $factory || exit 1
factory_pip() { $factory/bin/python -m pip --disable-pip-version-check --no-input "$@" >> "$log" 2>&1; }
factory_pip install "$(pinned torch)" "$(pinned pyyaml)" 'numpy<2' 'gymnasium<1' 'signal-slot-mp<2' tensorboardx \
  "$(pinned psutil)" threadpoolctl colorlog filelock 'huggingface-hub<1' opencv-python-headless &&
  factory_pip install --no-deps "$(pinned sample-factory)" ||
  lacks sample-factory "pip could not install $(pinned sample-factory) (log: $log)"

# The official Dreamer V3 pins JAX and asks for older numpy: a house of its own. Of what it requires,
# what its learner imports.
jax=$venv/jax
[ -x $jax/bin/python ] || "$python" -m venv $jax || exit 1
$jax/bin/python -m pip --disable-pip-version-check --no-input install "$(pinned jax)" "$(pinned ninjax)" \
  "$(pinned elements)" "$(pinned portal)" "$(pinned granular)" 'numpy<2' chex einops jaxtyping optax scope tqdm \
  colored_traceback ruamel.yaml >> "$log" 2>&1 ||
  lacks dreamerv3 "pip could not install $(pinned jax) (log: $log)"

# PufferLib is published as source, and its set-up fetches more from the net and builds every game.
# Its cartpole is one header: pip only unpacks the source here, our driver is compiled against it.
program=$venv/puffer_cartpole
unpacked=$venv/pufferlib
if [ ! -x $program ] || [ bench/peers/puffer_cartpole.c -nt $program ]; then
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

# Its trainer needs two extensions: the advantages, compiled against torch, and cartpole as a module.
# They are built in place with its own flags; what its set-up would install besides is left out.
package=$(dirname "$(dirname "$(find $unpacked -path '*/pufferlib/ocean/__init__.py' | head -1)")")
if [ -d "$package/ocean" ]; then
  pip install "$(pinned psutil)" "$(pinned rich)" "$(pinned rich_argparse)"
  # only names of its space classes are looked up; its own requirements would turn numpy back
  pip install --no-deps "$(pinned gym)" gym_notices
  raylib=$(echo $unpacked/*/*/raylib-*_linux_amd64)
  torch=$($venv/bin/python -c "import torch; print(torch.__path__[0])")
  includes=$($venv/bin/python -c "import numpy, sysconfig
print('-I' + sysconfig.get_path('include'), '-I' + numpy.get_include())")
  cartpole=$package/ocean/cartpole
  # shellcheck disable=SC2086
  [ -e "$cartpole/binding.so" ] ||
    ${CC:-cc} -O2 -flto -shared -fPIC -DPLATFORM_DESKTOP $includes -I"$raylib/include" \
      "$cartpole/binding.c" -o "$cartpole/binding.so" "$raylib/lib/libraylib.a" -lm -lpthread -ldl \
      >> "$log" 2>&1 || lacks pufferlib "its cartpole module did not compile (log: $log)"
  # shellcheck disable=SC2086
  [ -e "$package/_C.so" ] ||
    ${CXX:-c++} -std=c++20 -O3 -shared -fPIC -DTORCH_EXTENSION_NAME=_C $includes \
      -I"$torch/include" -I"$torch/include/torch/csrc/api/include" \
      "$package/extensions/pufferlib.cpp" -o "$package/_C.so" -L"$torch/lib" -ltorch -ltorch_cpu \
      -lc10 -ltorch_python -Wl,-rpath,"$torch/lib" >> "$log" 2>&1 ||
    lacks pufferlib "its trainer's extension did not compile (log: $log)"
  # where bench/run.py finds it
  ln -sfn "$PWD/$(dirname "$package")" $venv/puffer_source
fi
exit $missing
