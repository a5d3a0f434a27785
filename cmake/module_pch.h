#pragma once
// Precompiled for networks and algorithms: see tensor_pch.h.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
