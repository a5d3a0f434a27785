#pragma once
// What Nsight Systems exports (`nsys export --type sqlite`) as Chrome's JSON, in which the rest
// reads it: ranges of NVTX, calls of CUDA, kernels, whole graphs, copies and sets, named as
// PyTorch's profiler names them. Tables and columns: NVIDIA Nsight Systems, "SQLite Schema
// Reference". Threads: an object belongs to one thread.

#include <memory>
#include <string>
#include <vector>

#include "base/timeline/sqlite.h"

namespace maglev {

class NsightText {
 public:
  /// Throws Error where the file is no export of Nsight Systems.
  explicit NsightText(const std::string& path);

  /// The next bytes of the text, at most `most`; 0: it is over. Throws Error where the file is
  /// damaged.
  size_t read(char* to, size_t most);

 private:
  struct Source {
    std::string query;
    void (NsightText::*put)(const SqliteRows& row);
  };
  void add_source(const std::string& table, const std::string& query,
                  void (NsightText::*put)(const SqliteRows& row));
  // pid of a process and the text of a thread, of Nsight's serial numbers of both
  void put_process_name(const SqliteRows& row);
  void put_thread_name(const SqliteRows& row);
  void put_range(const SqliteRows& row);
  void put_call(const SqliteRows& row);
  void put_kernel(const SqliteRows& row);
  void put_graph(const SqliteRows& row);
  void put_copy(const SqliteRows& row);
  void put_set(const SqliteRows& row);

  void begin_event(const char* category, std::string_view name, const SqliteRows& row);
  void put_thread(int64_t serial);
  void put_stream(int64_t device, int64_t stream, int64_t correlation);
  bool fill();

  SqliteFile file_;
  std::vector<Source> sources_;
  size_t source_ = 0;
  std::unique_ptr<SqliteRows> rows_;
  std::string text_;
  size_t place_ = 0;
  bool any_ = false, over_ = false;
};

}  // namespace maglev
