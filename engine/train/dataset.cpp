#include "engine/train/dataset.h"

#include <algorithm>
#include <map>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "base/core/safetensors.h"
#include "base/core/split.h"
#include "engine/data/state.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

constexpr const char* kFormat = "maglev dataset 1";
constexpr const char* kHash = "hash.";

SafeDType safe_dtype(at::ScalarType dtype) {
  return dtype == at::kByte ? SafeDType::u8 : dtype == at::kInt ? SafeDType::i32 : SafeDType::f32;
}

/// The columns of a dataset and where a replay keeps them.
std::vector<std::pair<std::string, at::Tensor>> named_columns(const EnvSpec& spec,
                                                              const Batch& ring) {
  std::vector<std::pair<std::string, at::Tensor>> columns;
  for (size_t c = 0; c < ring.obs.size(); ++c)
    columns.emplace_back("obs." + spec.observations[c].name, ring.obs[c]);
  if (ring.mask.defined()) columns.emplace_back("mask", ring.mask);
  columns.emplace_back("is_first", ring.is_first);
  columns.emplace_back("action", ring.action);
  columns.emplace_back("reward", ring.reward);
  columns.emplace_back("terminated", ring.terminated);
  columns.emplace_back("truncated", ring.truncated);
  return columns;
}

/// Rows of a ring [slots * rows] in the order of a file, and the episodes' first and last places
/// among them.
struct Order {
  std::vector<int64_t> places, first, last;
};

Order order_of(const Replay& replay, const at::Tensor& is_first) {
  const auto flag = is_first.accessor<uint8_t, 2>();
  const EpisodeCounters c = replay.counters();
  const int64_t slots = replay.slots(), rows = replay.shape().window.rows;
  Order order;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t begin = c.oldest, end; begin <= c.now; begin = end) {
      for (end = begin + 1; end <= c.now && !flag[end % slots][r]; ++end) {
      }
      // a row alone is no transition
      if (end - begin < 2) continue;
      order.first.push_back(int64_t(order.places.size()));
      for (int64_t t = begin; t < end; ++t) order.places.push_back(t % slots * rows + r);
      order.last.push_back(int64_t(order.places.size()) - 1);
    }
  return order;
}

std::string shape_text(at::ScalarType dtype, const std::vector<int64_t>& row) {
  std::string text = std::string(safe_dtype_name(safe_dtype(dtype))) + " [N";
  for (int64_t d : row) text += ", " + std::to_string(d);
  return text + "]";
}

/// A file whose header was parsed.
struct DatasetFile {
  std::string path;
  std::unique_ptr<FileReader> file;
  SafeTensors tensors;
  int64_t rows = 0;

  explicit DatasetFile(const std::string& name)
      : path(name), file(std::make_unique<FileReader>(name)), tensors(parse_safetensors(*file)) {
    const SafeTensor* reward = tensors.find("reward");
    if (!reward || reward->shape.size() != 1 || reward->shape[0] < 2)
      throw Error("[" + path +
                  "] is no dataset: it must hold 'reward' F32 [N] with N >= 2; `maglev "
                  "data` writes them");
    rows = reward->shape[0];
  }
};

/// The tensor of a file that the column `ring` [slots, 1, ...] wants: [N, ...].
const SafeTensor& expected(const DatasetFile& part, const std::string& name,
                           const at::Tensor& ring) {
  const auto row = ring.sizes().slice(2).vec();
  const SafeTensor* tensor = part.tensors.find(name);
  const std::string wanted = "'" + name + "' must be " + shape_text(ring.scalar_type(), row);
  if (!tensor)
    throw Error("[" + part.path + "] " + wanted +
                ", and there is none; is it a dataset of this "
                "environment? `maglev data` writes them");
  std::vector<int64_t> shape{part.rows};
  shape.insert(shape.end(), row.begin(), row.end());
  if (tensor->dtype != safe_dtype(ring.scalar_type()) || tensor->shape != shape)
    throw Error("[" + part.path + "] " + wanted + " with N = " + std::to_string(part.rows) +
                ", got " + tensor->shape_text() + "; is it a dataset of this environment?");
  return *tensor;
}

void check_actions(const std::string& path, const EnvSpec& spec, const at::Tensor& action) {
  for (size_t h = 0; h < spec.action.heads.size(); ++h) {
    const auto head = action.select(1, int64_t(h));
    const int64_t low = head.min().item<int64_t>(), high = head.max().item<int64_t>();
    if (low < 0 || high >= spec.action.heads[h])
      throw Error("[" + path + "] 'action' " + std::to_string(h) + " must lie in 0 to " +
                  std::to_string(spec.action.heads[h] - 1) + ", got " +
                  std::to_string(low < 0 ? low : high));
  }
  const auto text = [](float x) { return (std::ostringstream() << x).str(); };
  for (size_t d = 0; d < spec.action.low.size(); ++d) {
    const auto values = action.select(1, int64_t(d));
    const float low = values.min().item<float>(), high = values.max().item<float>();
    const float least = spec.action.low[d], most = spec.action.high[d];
    // what a policy sampled may lie beyond, environments clip it; other units lie far beyond
    const float slack = most - least;
    if (low < least - slack || high > most + slack)
      throw Error("[" + path + "] 'action' " + std::to_string(d) + " must lie in or near " +
                  text(least) + " to " + text(most) + ", got " +
                  text(low < least - slack ? low : high) +
                  "; actions are in the environment's own units");
  }
}

/// Reads a column of a file to `rows` [N, ...] of the ring, piece by piece: no more of it lies beside
/// the ring.
void read_column(const DatasetFile& part, const std::string& name, const SafeTensor& tensor,
                 const EnvSpec& spec, const at::Tensor& rows) {
  const int64_t N = rows.size(0), row_bytes = int64_t(rows[0].nbytes());
  const int64_t most = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, N);
  auto shape = rows.sizes().vec();
  shape[0] = most;
  const auto piece = at::empty(shape, rows.scalar_type());
  Hash hash;
  bool finite = true;
  std::vector<at::Tensor> lowest, highest;
  for (int64_t begin = 0; begin < N; begin += most) {
    const auto values = piece.narrow(0, 0, std::min(most, N - begin));
    const std::span bytes(static_cast<std::byte*>(values.data_ptr()), values.nbytes());
    part.file->read(tensor.begin + uint64_t(begin * row_bytes), bytes);
    hash.add(bytes);
    if (values.scalar_type() == at::kFloat)
      finite = finite && at::isfinite(values).all().item<bool>();
    if (name == "action") lowest.push_back(values.amin(0)), highest.push_back(values.amax(0));
    rows.narrow(0, begin, values.size(0)).copy_(values);
  }
  // what was damaged on its way is that before it is anything else
  if (const auto told = part.tensors.metadata.find(kHash + name);
      told != part.tensors.metadata.end() && told->second != hash.hex())
    throw Error("[" + part.path + "] '" + name +
                "' does not match the hash it was written with; copy the file again, or write it "
                "anew with `maglev data`");
  if (!finite) throw Error("[" + part.path + "] '" + name + "' holds a number that is not finite");
  if (name == "action")
    check_actions(part.path, spec, at::cat({at::stack(lowest), at::stack(highest)}));
}

// one episode must not run into the next: is_first follows, two rows on, exactly where a transition
// ended
void check_episodes(const std::string& path, const at::Tensor& is_first,
                    const at::Tensor& terminated, const at::Tensor& truncated) {
  const auto* first = is_first.const_data_ptr<uint8_t>();
  const auto *terminal = terminated.const_data_ptr<uint8_t>(),
             *cut = truncated.const_data_ptr<uint8_t>();
  const int64_t N = is_first.numel();
  bool whole = first[0] == 1;
  for (int64_t i = 0; i < N; ++i) {
    const bool begins = i + 1 == N || first[i + 1],
               ended = i > 0 && (terminal[i - 1] || cut[i - 1]);
    whole = whole && begins == ended;
  }
  if (!whole)
    throw Error("[" + path +
                "] each episode must begin with is_first and have terminated or truncated at the "
                "row before its last, and there alone");
}

}  // namespace

int64_t write_dataset(const std::string& path, const std::string& env, const EnvSpec& spec,
                      Replay& replay) {
  const auto host_first = replay.columns().is_first.cpu();
  const Order order = order_of(replay, host_first);
  const int64_t N = int64_t(order.places.size());
  if (N == 0) throw Error("[dataset] the replay holds no transition yet; train longer first");
  const auto places = at::tensor(order.places), last = at::tensor(order.last);
  const auto columns = named_columns(spec, replay.columns());

  std::vector<SafeTensorInfo> infos;
  for (const auto& [name, ring] : columns) {
    std::vector<int64_t> shape{N};
    shape.insert(shape.end(), ring.sizes().begin() + 2, ring.sizes().end());
    infos.push_back({.name = name, .dtype = safe_dtype(ring.scalar_type()), .shape = shape});
  }
  // a column at a time, so that the file takes no more memory than its largest
  auto rows_of = [&](const std::string& name, const at::Tensor& ring) {
    auto rows = ring.flatten(0, 1).index_select(0, places.to(ring.device())).cpu();
    // the last row is an observation alone; before it an episode that ran or was cut is truncated
    if (!name.starts_with("obs.") && name != "mask") rows.index_fill_(0, last, 0);
    if (name == "is_first") rows.index_fill_(0, at::tensor(order.first), 1);
    return rows;
  };
  auto ended = rows_of("terminated", replay.columns().terminated)
                   .logical_or(rows_of("truncated", replay.columns().truncated));
  const auto cut = (last - 1).masked_select(ended.index_select(0, last - 1).logical_not());

  // under its own name it is there as a whole or not at all
  const std::string folder = parent_of(path);
  sweep_temporaries(folder, path.substr(path.find_last_of('/') + 1));
  if (path_exists(path)) throw Error("[" + path + "] exists; remove it or choose another name");
  const std::string temporary = temporary_beside(path);
  FileWriter out(temporary);
  at::Tensor rows;
  const auto bytes_of = [&](size_t i) {
    rows = rows_of(columns[i].first, columns[i].second);
    if (columns[i].first == "truncated") rows.index_fill_(0, cut, 1);
    return std::span(static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes());
  };
  // hashes stand before what they are of, so each column is gathered twice
  std::map<std::string, std::string> metadata{{"format", kFormat}, {"environment", env}};
  for (size_t i = 0; i < columns.size(); ++i)
    metadata[kHash + columns[i].first] = hash_of(bytes_of(i));
  write_safetensors(out, infos, metadata, bytes_of);
  out.finish();
  rename_path(temporary, path);
  return N;
}

int64_t dataset_rows(const RunOptions& run) {
  int64_t rows = 0;
  for (const auto& name : split_list(run.dataset, "train.dataset")) rows += DatasetFile(name).rows;
  return rows;
}

std::string dataset_identity(const RunOptions& run) {
  std::string lines;
  for (const auto& name : split_list(run.dataset, "train.dataset")) {
    const DatasetFile part(name);
    std::string columns;
    for (const SafeTensor& tensor : part.tensors.tensors) {
      const auto hash = part.tensors.metadata.find(kHash + tensor.name);
      columns += tensor.name + " " + tensor.shape_text() + " " +
                 (hash == part.tensors.metadata.end() ? "" : hash->second) + "\n";
    }
    lines += std::to_string(part.rows) + " rows, hash " + hash_of(columns) + ", " + name + "\n";
  }
  return lines;
}

std::vector<std::string> dataset_notes(const RunOptions& run, const std::string& env) {
  std::vector<std::string> notes;
  for (const auto& name : split_list(run.dataset, "train.dataset")) {
    const DatasetFile part(name);
    const auto& said = part.tensors.metadata;
    if (!said.contains(std::string(kHash) + "reward"))
      notes.push_back(name + " holds no hashes: damage to it would not be seen");
    if (const auto from = said.find("environment"); from != said.end() && from->second != env)
      notes.push_back(name + " was recorded in " + from->second + ", and is learned from for " +
                      env);
  }
  return notes;
}

ReplayShape dataset_shape(const RunOptions& run, const ReplayPlan& plan, int64_t rows) {
  ReplayShape shape = replay_shape(run, plan, {.T = 1, .rows = 1, .block_rows = 1});
  shape.capacity = rows + Replay::least_capacity(shape);
  return shape;
}

std::unique_ptr<Replay> load_dataset(const RunOptions& run, const EnvSpec& spec,
                                     const DataPlan& plan, const Placement& placement) {
  if (const ExtraColumn* column = plan.column_of_acting())
    throw Error("[dataset] the algorithm learns from a column that acting writes ('" +
                column->name +
                "'), which no dataset has; give it an environment, or learn from the dataset with "
                "another algorithm, such as tdmpc2");
  std::vector<DatasetFile> parts;
  int64_t rows = 0;
  for (const auto& name : split_list(run.dataset, "train.dataset"))
    rows += parts.emplace_back(name).rows;
  if (parts.empty()) throw Error("[dataset] train.dataset names no file");

  const ReplayShape shape = dataset_shape(run, *plan.replay, rows);
  auto replay = std::make_unique<Replay>(
      spec, shape, plan.columns, placement.device,
      ring_memory(run, Replay::bytes(spec, shape, plan.columns), placement));
  // until an update has been there
  for (size_t c = 0; c < plan.columns.size(); ++c)
    replay->columns().extra[c].fill_(plan.columns[c].unwritten);
  int64_t begin = 0;
  for (const DatasetFile& part : parts) {
    const Batch& columns = replay->columns();
    const auto rows_of = [&](const at::Tensor& ring) {
      return ring.narrow(0, begin, part.rows).select(1, 0);
    };
    for (const auto& [name, ring] : named_columns(spec, columns))
      read_column(part, name, expected(part, name, ring), spec, rows_of(ring));
    check_episodes(part.path, rows_of(columns.is_first).cpu(), rows_of(columns.terminated).cpu(),
                   rows_of(columns.truncated).cpu());
    begin += part.rows;
  }
  replay->hold(0, rows - 1);
  return replay;
}

}  // namespace maglev
