#include "engine/train/shared_folder.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/core/error.h"

namespace maglev {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t(512) << 10;  // fits a word of however many machines
constexpr size_t kLongestPath = 4096;

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

}  // namespace

const std::string& SharedFolder::Temporary::make() {
  std::error_code none;
  std::string name = (fs::temp_directory_path(none) / "maglev-XXXXXX").string();
  if (none || !mkdtemp(name.data()))
    throw Error("[machines] no folder can be made for what this machine is given (" + name + ": " +
                (none ? none.message() : std::strerror(errno)) + "); TMPDIR names another place");
  return path_ = name;
}

void SharedFolder::Temporary::remove() {
  std::error_code gone;
  if (!path_.empty()) fs::remove_all(path_, gone);
  path_.clear();
}

SharedFolder::SharedFolder(ProcessGroup& orders, const std::string& folder)
    : orders_(orders), path_(folder) {
  if (orders.here() == orders.size()) return;
  const bool writes = orders.is_head() && orders.rank() > 0;
  if (writes) path_ = copy_.make();
  if (orders.rank() == 0) give();
  else take(writes);
  // where the head of this machine has it
  if (path_.size() >= kLongestPath)
    throw Error("[machines] " + path_ + " is too long a name; TMPDIR names another place");
  std::string own = path_, all(kLongestPath * size_t(orders.size()), '\0');
  own.resize(kLongestPath);
  orders.gather(own.data(), kLongestPath, all.data());
  path_ = all.c_str() + kLongestPath * size_t(orders.first_here());
}

void SharedFolder::give() {
  const auto files = files_of(path_);
  orders_.tell(std::to_string(files.size()));
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const auto bytes = int64_t(fs::file_size(path));
    orders_.tell(path.filename().string());
    orders_.tell(std::to_string(bytes));
    std::string piece;
    for (int64_t left = bytes; left > 0; left -= int64_t(piece.size())) {
      piece.resize(size_t(std::min(left, int64_t(kPiece))));
      if (!file.read(piece.data(), std::streamsize(piece.size())))
        throw Error("[machines] " + path.string() + " cannot be read to its end");
      orders_.tell(piece);
    }
  }
}

void SharedFolder::take(bool writes) {
  for (int64_t files = std::stoll(orders_.hear()); files > 0; --files) {
    // a name alone, whatever it says
    const fs::path path = fs::path(path_) / fs::path(orders_.hear()).filename();
    std::ofstream file;
    const auto written = [&](bool well) {
      if (writes && !well)
        throw Error("[machines] " + path.string() + " cannot be written (" + std::strerror(errno) +
                    "); TMPDIR names another place");
    };
    if (writes) file.open(path, std::ios::binary);
    written(bool(file));
    for (int64_t left = std::stoll(orders_.hear()); left > 0;) {
      const std::string piece = orders_.hear();
      if (writes) written(bool(file.write(piece.data(), std::streamsize(piece.size())).flush()));
      left -= int64_t(piece.size());
    }
  }
}

void SharedFolder::let_go() {
  if (orders_.here() == orders_.size()) return;
  const char own = 1;
  std::vector<char> all(size_t(orders_.size()));
  orders_.gather(&own, 1, all.data());
  copy_.remove();
}

}  // namespace maglev
