# Maglev in a clean image: the first stage builds the wheel, the second one installs it (docs/installing.md).
#
#   docker build -t maglev .
#   docker run --rm -v "$PWD/runs:/work/runs" maglev train ppo goodhart
#
# for NVIDIA's GPUs, with torch as PyPI has it and a toolkit of the same major version as that torch's:
#
#   docker build -t maglev:cuda --build-arg TORCH_INDEX= \
#     --build-arg BUILD_IMAGE=nvidia/cuda:13.0.1-devel-ubuntu24.04 --build-arg IMAGE=ubuntu:24.04 .
#   docker run --rm --gpus all -v "$PWD/runs:/work/runs" maglev:cuda train ppo goodhart

# of one system: a wheel is for the Python that it was built by
ARG BUILD_IMAGE=debian:12-slim
ARG IMAGE=debian:12-slim

FROM ${BUILD_IMAGE} AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
COPY . /maglev
# which installs compiler, libraries and torch by itself
RUN MAGLEV_TORCH_INDEX=${TORCH_INDEX} python3 /maglev/maglev wheel

FROM ${IMAGE}
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=gymnasium,mujoco,pykeen
# with what MuJoCo draws by
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv libegl1 libgl1-mesa-dri \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /maglev/dist /tmp/dist
RUN python3 -m venv /opt/maglev \
 && /opt/maglev/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url ${TORCH_INDEX}} \
    "$(echo /tmp/dist/*.whl)[${EXTRAS}]" \
 && rm -r /tmp/dist
ENV PATH=/opt/maglev/bin:${PATH}
WORKDIR /work
ENTRYPOINT ["maglev"]
CMD ["--help"]
