# Maglev in a clean image: the first stage builds the wheel, the second one installs it (docs/installing.md).
#
#   docker build -t maglev .
#   docker run --rm -v "$PWD/runs:/data/runs" maglev train ppo goodhart
#
# torch is the one of the package index, of 2 GB, for GPUs too. A smaller one for processors alone comes from another index,
# the one that PyTorch's page of installation names for them:
#
#   docker build -t maglev --build-arg TORCH_INDEX=URL .
#
# for NVIDIA's GPUs, with a toolkit of the same major version as torch's:
#
#   docker build -t maglev:cuda --build-arg BUILD_IMAGE=nvidia/cuda:13.0.1-devel-ubuntu24.04 \
#     --build-arg IMAGE=ubuntu:24.04 .
#   docker run --rm --gpus all -v "$PWD/runs:/data/runs" maglev:cuda train ppo goodhart

# of one system: a wheel is for the Python that it was built by
ARG BUILD_IMAGE=debian:12-slim
ARG IMAGE=debian:12-slim

FROM ${BUILD_IMAGE} AS build
ARG TORCH_INDEX=
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
COPY . /maglev
# which installs compiler, libraries and torch by itself
RUN MAGLEV_TORCH_INDEX=${TORCH_INDEX} python3 /maglev/maglev wheel

FROM ${IMAGE}
ARG TORCH_INDEX=
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
WORKDIR /data
ENTRYPOINT ["maglev"]
CMD ["--help"]
