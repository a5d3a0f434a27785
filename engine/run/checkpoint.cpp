#include "engine/run/checkpoint.h"

#include <algorithm>
#include <cinttypes>
#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/processes/process_group.h"
#include "engine/host/system.h"

namespace maglev {
namespace {

// beside the tensors: header and manifest. A save for which it does not suffice leaves nothing
constexpr uint64_t kSpareBytes = 256 << 10;
constexpr size_t kMostListed = 8;

struct DTypePair {
  SafeDType safe;
  at::ScalarType torch;
};
constexpr DTypePair kDTypes[] = {
    {SafeDType::f64, at::kDouble},    {SafeDType::f32, at::kFloat},  {SafeDType::f16, at::kHalf},
    {SafeDType::bf16, at::kBFloat16}, {SafeDType::i64, at::kLong},   {SafeDType::i32, at::kInt},
    {SafeDType::i16, at::kShort},     {SafeDType::i8, at::kChar},    {SafeDType::u8, at::kByte},
    {SafeDType::u64, at::kUInt64},    {SafeDType::u32, at::kUInt32}, {SafeDType::u16, at::kUInt16},
    {SafeDType::boolean, at::kBool}};

[[noreturn]] void fault_of_ours(const std::string& name, const char* why) {
  assert_failed(name.c_str(), why, __FILE__, __LINE__);
}

SafeTensorInfo info_of(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) fault_of_ours(name, "a state tensor is undefined");
  for (const DTypePair& pair : kDTypes)
    if (pair.torch == tensor.scalar_type())
      return {.name = name, .dtype = pair.safe, .shape = tensor.sizes().vec()};
  fault_of_ours(name, "a state tensor has a dtype that checkpoints do not hold");
}

at::ScalarType torch_dtype(SafeDType dtype) {
  for (const DTypePair& pair : kDTypes)
    if (pair.safe == dtype) return pair.torch;
  fault_of_ours(std::string(safe_dtype_name(dtype)), "a dtype has no torch twin");
}

std::span<std::byte> bytes_of(const at::Tensor& host) {
  return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()};
}

// a device's tensor through little of the host's memory: a replay may be larger than that
class PiecesOfDevice : public InPieces {
 public:
  explicit PiecesOfDevice(const at::Tensor& whole)
      : whole_(whole.detach()),
        length_(std::max<int64_t>(1, kPieceBytes * whole.size(0) / int64_t(whole.nbytes()))) {}

  static bool suits(const at::Tensor& value) {
    return !value.is_cpu() && value.dim() > 0 && int64_t(value.nbytes()) > kPieceBytes;
  }

  at::Tensor like() const override { return whole_; }
  at::Tensor like(int64_t piece) const override {
    return at::empty(at_piece(piece).sizes(), at::TensorOptions(whole_.scalar_type()));
  }
  int64_t count() const override { return (whole_.size(0) + length_ - 1) / length_; }
  at::Tensor get(int64_t piece) override { return at_piece(piece).to(at::kCPU).contiguous(); }
  void put(int64_t piece, const at::Tensor& values) override { at_piece(piece).copy_(values); }

 private:
  at::Tensor at_piece(int64_t piece) const {
    const int64_t begin = piece * length_;
    return whole_.narrow(0, begin, std::min(length_, whole_.size(0) - begin));
  }

  at::Tensor whole_;
  int64_t length_;  ///< of a piece, along the first dimension
};

// a live tensor, which is read a piece at a time where nobody has it as a whole
class LiveTensor {
 public:
  explicit LiveTensor(at::Tensor whole) : whole_(std::move(whole)) {
    if (PiecesOfDevice::suits(whole_)) pieces_ = std::make_shared<PiecesOfDevice>(whole_);
  }
  explicit LiveTensor(std::shared_ptr<InPieces> pieces)
      : whole_(pieces->like()), pieces_(std::move(pieces)) {}

  /// Dtype and shape alone count.
  const at::Tensor& like() const { return whole_; }
  int64_t pieces() const { return pieces_ ? pieces_->count() : 1; }
  at::Tensor on_host(int64_t piece) const {
    return pieces_ ? pieces_->get(piece) : whole_.detach().to(at::kCPU).contiguous();
  }

 private:
  at::Tensor whole_;
  std::shared_ptr<InPieces> pieces_;
};

// everything a visit names; tensors are handles to the live ones
class Collector : public StateVisitor {
 public:
  StateSummary summary;             ///< tensors without hashes
  std::vector<LiveTensor> tensors;  ///< in the order of summary.tensors
  uint64_t bytes = 0;

  /// Integers that `adopt` names take its values as they are visited: sizes of what is visited
  /// after them may follow from them.
  explicit Collector(const VisitState& visit, const std::map<std::string, int64_t>* adopt = nullptr,
                     bool sees_values = true)
      : adopt_(adopt), sees_values_(sees_values) {
    visit(*this);
    for (const auto& [name, tensor] : by_name_) tensors.push_back(tensor);
  }
  bool sees_values() const override { return sees_values_; }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    keep(name, LiveTensor(value));
  }
  void visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all) override {
    keep(name, LiveTensor(all));
  }
  void visit_integer(const std::string& name, int64_t& value) override {
    if (adopt_)
      if (auto found = adopt_->find(name); found != adopt_->end()) value = found->second;
    summary.integers[claim(name)] = value;
  }
  void visit_real(const std::string& name, double& value) override {
    summary.reals[claim(name)] = value;
  }
  void visit_text(const std::string& name, std::string& value) override {
    summary.texts[claim(name)] = value;
  }

  void keep(const std::string& name, const LiveTensor& live) {
    summary.tensors[name].info = info_of(claim(name), live.like());
    by_name_.emplace(name, live);
    bytes += live.like().nbytes();
  }
  const std::string& claim(const std::string& name) {
    if (summary.integers.contains(name) || summary.reals.contains(name) ||
        summary.texts.contains(name) || by_name_.contains(name))
      fault_of_ours(name, "a state name is used twice");
    return name;
  }

  const std::map<std::string, int64_t>* adopt_;
  bool sees_values_;
  std::map<std::string, LiveTensor> by_name_;
};

// of a visit, of which nothing is read
StateSummary named_by(const VisitState& visit,
                      const std::map<std::string, int64_t>* adopt = nullptr) {
  return Collector(visit, adopt, /*sees_values=*/false).summary;
}

// copies verified values into the live state
class Restorer : public StateVisitor {
 public:
  explicit Restorer(const VerifiedCheckpoint& from)
      : state_(from.manifest.state), file_(*from.file) {
    for (const SafeTensor& t : from.tensors.tensors) tensors_.emplace(t.name, &t);
  }
  bool loads() const override { return true; }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    const SafeTensor& saved = *tensors_.at(name);
    if (saved.bytes == 0) return;
    if (PiecesOfDevice::suits(value))
      return visit_pieces(name, std::make_shared<PiecesOfDevice>(value));
    // straight to where it belongs, if that is plain memory: it may be a replay of half the machine
    at::Tensor live = value.detach();
    const bool plain = live.is_cpu() && live.is_contiguous();
    at::Tensor host =
        plain ? live : at::empty(saved.shape, at::TensorOptions(torch_dtype(saved.dtype)));
    const std::span<std::byte> bytes = bytes_of(host);
    file_.read(saved.begin, bytes);
    expect_hash(name, hash_of(bytes));
    if (!plain) live.copy_(host);
  }
  void visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all) override {
    uint64_t begin = tensors_.at(name)->begin;
    Hash hash;
    for (int64_t i = 0; i < all->count(); ++i) {
      const at::Tensor like = all->like(i), host = at::empty(like.sizes(), like.options());
      const std::span<std::byte> bytes = bytes_of(host);
      file_.read(begin, bytes);
      hash.add(bytes);
      all->put(i, host);
      begin += bytes.size();
    }
    expect_hash(name, hash.hex());
  }
  void visit_integer(const std::string& name, int64_t& value) override {
    value = state_.integers.at(name);
  }
  void visit_real(const std::string& name, double& value) override {
    value = state_.reals.at(name);
  }
  void visit_text(const std::string& name, std::string& value) override {
    value = state_.texts.at(name);
  }

  void expect_hash(const std::string& name, const std::string& hash) const {
    if (hash != state_.tensors.at(name).hash)
      throw Error("[" + file_.path() + "] '" + name +
                  "' was changed while it was loaded; is another process writing there?");
  }

  const StateSummary& state_;
  const FileReader& file_;
  std::map<std::string_view, const SafeTensor*> tensors_;
};

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), kMostListed); ++i)
    text += (i ? ", " : "") + items[i];
  if (items.size() > kMostListed)
    text += " and " + std::to_string(items.size() - kMostListed) + " more";
  return text;
}

// what each name is, so that two states can be compared whatever the kind
using Kinds = std::map<std::string, std::string>;

Kinds kinds_of(const StateSummary& state) {
  Kinds kinds;
  for (const auto& [name, value] : state.integers) kinds[name] = "an integer";
  for (const auto& [name, value] : state.reals) kinds[name] = "a real";
  for (const auto& [name, value] : state.texts) kinds[name] = "a text";
  for (const auto& [name, tensor] : state.tensors) kinds[name] = tensor.info.shape_text();
  return kinds;
}

// passes on what is wanted of a visit
class Only : public StateVisitor {
 public:
  Only(StateVisitor& to, const Kinds& wanted) : to_(to), wanted_(wanted) {}
  bool loads() const override { return to_.loads(); }
  bool sees_values() const override { return to_.sees_values(); }

 private:
  void visit_tensor(const std::string& name, at::Tensor& value) override {
    if (wanted_.contains(name)) to_.tensor(name, value);
  }
  void visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all) override {
    if (wanted_.contains(name)) to_.pieces(name, all);
  }
  void visit_integer(const std::string& name, int64_t& value) override {
    if (wanted_.contains(name)) to_.integer(name, value);
  }
  void visit_real(const std::string& name, double& value) override {
    if (wanted_.contains(name)) to_.real(name, value);
  }
  void visit_text(const std::string& name, std::string& value) override {
    if (wanted_.contains(name)) to_.text(name, value);
  }

  StateVisitor& to_;
  const Kinds& wanted_;
};

// "algo.network" of "algo.network.trunk.weight"
std::string section_of(const std::string& name) {
  return name.substr(0, name.find('.', name.find('.') + 1));
}

// `whole`: the live state is all of the saved one, else it may be a part
void check_names(const std::string& dir, const Kinds& in_file, const Kinds& in_run, bool whole) {
  std::vector<std::string> missing, left_over, differing;
  for (const auto& [name, kind] : in_run) {
    auto found = in_file.find(name);
    if (found == in_file.end()) missing.push_back("'" + name + "'");
    else if (found->second != kind)
      differing.push_back("'" + name + "' is " + kind + " here and " + found->second + " there");
  }
  for (const auto& [name, kind] : in_file)
    if (whole && !in_run.contains(name)) left_over.push_back("'" + name + "'");
  std::string why;
  auto add = [&](const char* what, const std::vector<std::string>& items) {
    if (!items.empty()) why += (why.empty() ? "" : "; ") + (what + listed(items));
  };
  add("it lacks ", missing);
  add("this run has no ", left_over);
  add("", differing);
  if (!why.empty())
    throw UnlikeState("[" + dir + "] does not fit this run: " + why +
                      "; take the settings it was saved with");
}

void check_tokens(const std::string& dir, const CheckpointIdentity& identity,
                  const CheckpointIdentity& expected) {
  // one of before tokens were told has none
  if (!identity.tokens.empty() && !expected.tokens.empty() && identity.tokens != expected.tokens)
    throw Error("[" + dir + "] was trained on other names than " + expected.env +
                " has now: its policy's tokens would stand for other things; give it the data it "
                "was trained on, or train anew");
}

void check_identity(const std::string& dir, const CheckpointIdentity& identity,
                    const CheckpointIdentity& expected) {
  if (identity.algo != expected.algo || identity.env != expected.env)
    throw Error("[" + dir + "] is a checkpoint of " + identity.algo + " on " + identity.env +
                ", this run is " + expected.algo + " on " + expected.env +
                "; choose a checkpoint of the same algorithm and environment");
  check_tokens(dir, identity, expected);
}

std::string step_name(int64_t step) { return printed("step_%012" PRId64, step); }

// one more than any checkpoint of the folder has; damaged ones do not count
int64_t next_sequence(const std::string& checkpoints, const std::vector<std::string>& names) {
  int64_t last = 0;
  for (const auto& name : names) {
    if (!name.starts_with("step_")) continue;
    try {
      last = std::max(last, read_manifest(checkpoints + "/" + name).sequence);
    } catch (const Error&) {
      continue;
    }
  }
  return last + 1;
}

void write_checkpoint(const std::string& dir, Manifest& manifest,
                      const std::vector<LiveTensor>& tensors) {
  std::vector<SafeTensorInfo> infos;
  for (const auto& [name, row] : manifest.state.tensors) infos.push_back(row.info);
  std::vector<Hash> hashes(tensors.size());
  std::vector<int64_t> written(tensors.size());
  make_dir(dir);
  FileWriter state(dir + "/" + kStateFile);
  at::Tensor host;
  write_safetensors(state, infos,
                    {{"format", "pt"}, {"maglev", "checkpoint state; see manifest.json"}},
                    [&](size_t i) {
                      host = tensors[i].on_host(written[i]++);
                      hashes[i].add(bytes_of(host));
                      return bytes_of(host);
                    });
  state.finish();
  size_t i = 0;
  for (auto& [name, row] : manifest.state.tensors) row.hash = hashes[i++].hex();
  manifest.file_bytes = state.bytes();
  manifest.file_hash = state.hash();
  FileWriter text(dir + "/" + kManifestFile);
  text.write(manifest.text());
  text.finish();
  sync_dir(dir);
}

}  // namespace

std::string save_checkpoint(const std::string& checkpoints, const CheckpointIdentity& identity,
                            const VisitState& visit) {
  Collector live(visit);
  std::string name = step_name(identity.step), path, temporary;
  auto clean_up = [&] {
    if (temporary.empty()) return;
    try {
      // renamed, but the folder could not be synced: a power cut might take it, so it is taken back
      if (path_exists(path)) rename_path(path, temporary);
    } catch (const Error&) {
      // the rename may have worked even so
    }
    try {
      remove_tree(temporary);
    } catch (const Error&) {
      // the next save sweeps it
    }
  };
  try {
    make_dirs(checkpoints);
    std::vector<std::string> names = list_dir(checkpoints);
    for (const auto& left : names)
      if (is_temporary(left)) remove_tree(checkpoints + "/" + left);
    if (uint64_t free = free_bytes(checkpoints); free < live.bytes + kSpareBytes)
      throw Error("[" + checkpoints + "] needs " + bytes_text(int64_t(live.bytes + kSpareBytes)) +
                  ", " + bytes_text(int64_t(free)) + " are free; free space there");

    Manifest manifest;
    manifest.identity = identity;
    manifest.sequence = next_sequence(checkpoints, names);
    manifest.state = live.summary;
    for (int n = 2; path_exists(checkpoints + "/" + name); ++n)
      name = step_name(identity.step) + "_" + std::to_string(n);
    path = checkpoints + "/" + name;
    temporary = temporary_beside(path);
    write_checkpoint(temporary, manifest, live.tensors);
    rename_path(temporary, path);
    return path;
  } catch (const ProcessGroup::Gone&) {
    clean_up();
    throw;
  } catch (const Error& e) {
    clean_up();
    throw Error("[checkpoint] " + name + " was not saved, earlier ones are intact: " + e.what());
  } catch (...) {
    // torch's, such as a device that is lost
    clean_up();
    throw;
  }
}

CheckpointIdentity load_checkpoint(const std::string& dir, const CheckpointIdentity& expected,
                                   const VisitState& visit) {
  return load_checkpoint(verify_checkpoint(dir), expected, visit);
}

CheckpointIdentity load_checkpoint(const VerifiedCheckpoint& checkpoint,
                                   const CheckpointIdentity& expected, const VisitState& visit) {
  const std::string& dir = checkpoint.dir;
  check_identity(dir, checkpoint.manifest.identity, expected);
  const StateSummary& saved = checkpoint.manifest.state;
  const auto before = named_by(visit).integers;
  try {
    check_names(dir, kinds_of(saved), kinds_of(named_by(visit, &saved.integers)), /*whole=*/true);
  } catch (const Error&) {
    // back to what the integers were, from which nothing is out of range
    named_by(visit, &before);
    throw;
  }
  at::NoGradGuard no_grad;
  Restorer restorer(checkpoint);
  visit(restorer);
  return checkpoint.manifest.identity;
}

CheckpointIdentity load_section(const std::string& dir, const std::string& section,
                                const CheckpointIdentity& expected, const VisitState& visit) {
  VerifiedCheckpoint checkpoint = verify_checkpoint(dir);
  check_identity(dir, checkpoint.manifest.identity, expected);
  const VisitState visit_section = [&](StateVisitor& v) { v.section(section, visit); };
  check_names(dir, kinds_of(checkpoint.manifest.state), kinds_of(named_by(visit_section)),
              /*whole=*/false);
  at::NoGradGuard no_grad;
  Restorer restorer(checkpoint);
  visit_section(restorer);
  return checkpoint.manifest.identity;
}

void load_networks(const std::string& dir, const CheckpointIdentity& expected,
                   const VisitState& algorithm, const VisitState& policy) {
  const VerifiedCheckpoint checkpoint = verify_checkpoint(dir);
  const CheckpointIdentity& identity = checkpoint.manifest.identity;
  const std::string& algo = expected.algo;
  if (identity.algo != algo)
    throw Error("[" + dir + "] is a checkpoint of " + identity.algo + ", this run is " + algo +
                "; take one of the same algorithm");
  check_tokens(dir, identity, expected);
  const VisitState visit = [&](StateVisitor& v) { v.section("algo", algorithm); };
  const auto wanted = kinds_of(named_by([&](StateVisitor& v) { v.section("algo", policy); }));
  // in sections that the policy names, a checkpoint with more than these is of other networks
  std::set<std::string> sections;
  for (const auto& [name, kind] : wanted) sections.insert(section_of(name));
  Kinds in_file = kinds_of(checkpoint.manifest.state);
  std::erase_if(in_file,
                [&](const auto& row) { return !sections.contains(section_of(row.first)); });
  if (wanted.empty())
    throw Error("[" + dir + "] " + algo + " has no networks of its own to begin with");
  check_names(dir, in_file, wanted, /*whole=*/true);

  at::NoGradGuard no_grad;
  Restorer restorer(checkpoint);
  Only only(restorer, wanted);
  visit(only);
}

std::string state_hash(const VisitState& visit) {
  Collector live(visit);
  size_t i = 0;
  for (auto& [name, row] : live.summary.tensors) {
    const LiveTensor& tensor = live.tensors[i++];
    Hash hash;
    for (int64_t piece = 0; piece < tensor.pieces(); ++piece)
      hash.add(bytes_of(tensor.on_host(piece)));
    row.hash = hash.hex();
  }
  return live.summary.hash();
}

}  // namespace maglev
