#pragma once
// Precompiled for layers 3 and 4. An empty file costs 1.4 s with tensors alone, 3.2 s with modules
// (module_pch.h), and 6 s with all of <torch/torch.h>, which nothing here needs.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
