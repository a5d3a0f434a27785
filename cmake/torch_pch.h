#pragma once
// Precompiled for layers 3 and 4: torch costs 13 s a file without it.
#include <torch/torch.h>
