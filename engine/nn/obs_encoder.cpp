#include "engine/nn/obs_encoder.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/env/pictures.h"
#include "engine/data/waiting.h"
#include "kernels/cells/cells_op.h"
#include "kernels/image/image_op.h"

namespace maglev {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

void append(at::Tensor& to, const at::Tensor& part) {
  to = to.defined() ? at::cat({to, part}, 1) : part;
}

}  // namespace

bool is_image(const ObsColumn& column) { return column.cells.bits > 0 || is_picture(column); }

bool shows_image(const EnvSpec& spec) {
  return std::any_of(spec.observations.begin(), spec.observations.end(), is_image);
}

bool shows_tokens(const EnvSpec& spec) {
  return std::any_of(spec.observations.begin(), spec.observations.end(),
                     [](const ObsColumn& o) { return !o.vocabulary.empty(); });
}

ObsEncoder::ObsEncoder(const EnvSpec& spec, bool normalize) : ends_apart_(spec.ends_apart) {
  for (const auto& o : spec.observations) {
    Column column{.spec = o, .norm = nullptr, .policy_table = {}, .critic_table = {}};
    const bool critic_only = o.audience == Audience::critic;
    if (o.cells.bits > 0) {
      MAGLEV_ASSERT(o.cells.grid.size() == 2 && 8 % o.cells.bits == 0,
                    "cells are a grid of 1, 2, 4 or 8 bits");
      MAGLEV_ASSERT(!critic_only && channels_ == 0, "one image the policy sees");
      column.policy_table =
          register_buffer(o.name + "_policy_table", make_cell_table(o.cells, o.cells.policy));
      if (!o.cells.critic.empty()) {
        column.critic_table =
            register_buffer(o.name + "_critic_table", make_cell_table(o.cells, o.cells.critic));
        privileged_size_ += o.cells.channels * product(o.cells.grid);
      }
      channels_ = o.cells.channels, height_ = o.cells.grid[0], width_ = o.cells.grid[1];
    } else if (is_image(o)) {
      MAGLEV_ASSERT(!critic_only && channels_ == 0, "one image the policy sees");
      height_ = o.shape[0], width_ = o.shape[1], channels_ = o.shape[2];
    } else {
      (critic_only ? privileged_size_ : vector_size_) += o.elements();
      if (normalize && o.dtype == DType::f32)
        column.norm =
            register_module(o.name + "_norm", std::make_shared<RunningNorm>(o.elements()));
    }
    columns_.push_back(std::move(column));
  }
}

EncodedObs ObsEncoder::forward(const std::vector<at::Tensor>& columns, bool want_privileged) const {
  EncodedObs out;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const ObsColumn& spec = column.spec;
    const at::Tensor& x = columns[i];
    const int64_t B = x.size(0);
    if (spec.cells.bits > 0) {
      out.policy.image = decode_cells(x, column.policy_table, spec.cells).permute({0, 3, 1, 2});
      if (want_privileged && column.critic_table.defined())
        append(out.privileged, decode_cells(x, column.critic_table, spec.cells).reshape({B, -1}));
    } else if (is_image(spec)) {
      out.policy.image = scale_image(x, 1.0 / 255).permute({0, 3, 1, 2});
    } else {
      if (spec.audience == Audience::critic && !want_privileged) continue;
      auto flat = x.reshape({B, -1}).to(at::kFloat);
      if (column.norm) flat = column.norm->forward(flat);
      append(spec.audience == Audience::critic ? out.privileged : out.policy.vector, flat);
    }
  }
  return out;
}

void ObsEncoder::absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first,
                        int64_t T, Group* group) {
  at::Tensor weight;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].norm) continue;
    if (ends_apart_ && !weight.defined())
      weight = 1 - waiting_rows(is_first.narrow(0, 0, T + 1)).flatten().to(at::kFloat);
    columns_[i].norm->absorb(columns[i].narrow(0, 0, T).reshape({-1, columns_[i].spec.elements()}),
                             weight, group);
  }
}

std::vector<const RunningNorm*> ObsEncoder::norms() const {
  std::vector<const RunningNorm*> norms;
  for (const auto& column : columns_) norms.push_back(column.norm.get());
  return norms;
}

}  // namespace maglev
