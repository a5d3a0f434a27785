#pragma once
// The file layer: everything that must survive a kill, a power cut or a full disk is written
// through these functions. Each failure is one Error: "[path] what failed: why; what to do".
// Interrupted calls are repeated and short writes are continued. base/core/file_fault.h lets
// tests fail any operation. Threads: functions may be called from any thread; an object belongs to
// one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/hash.h"

namespace maglev {

/// The whole regular file. Throws when it is over `limit` bytes or is no regular file.
std::string read_file(const std::string& path, size_t limit);

/// Calls `line` with every line of a regular file, without its end, in order; what stands behind
/// the last end is left out. Reads a piece at a time. Throws on a line of more than 16 MiB.
void read_lines(const std::string& path, const std::function<void(std::string_view)>& line);

/// Bytes a regular file has now. Throws.
uint64_t file_bytes(const std::string& path);

/// Replaces or creates `path`: a reader finds the old bytes or the new ones, whatever happens in
/// between, and once this returns the new ones survive a power cut. On failure no temporary
/// is left and the old file is intact, or the new one is there whole and may not survive that cut.
void write_atomic(const std::string& path, std::string_view bytes);

/// Both follow links; what cannot be looked at is none.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
/// Makes the folder and its parents; existing ones are fine.
void make_dirs(const std::string& path);
/// Makes one folder; false when something of that name is there already.
bool make_dir(const std::string& path);
/// Names in a folder, sorted, without . and ..; empty when there is no such folder.
std::vector<std::string> list_dir(const std::string& path);
/// Removes a file, link or empty folder; one that is not there is fine.
void remove_path(const std::string& path);
/// Removes a folder and all in it; links are removed, not followed.
void remove_tree(const std::string& path);
/// Renames a file or folder within one filesystem and makes it durable (syncs the folders).
void rename_path(const std::string& from, const std::string& to);
/// Points the symbolic link `path` at `target`, replacing the link atomically.
void replace_link(const std::string& path, const std::string& target);
/// What a symbolic link points at; empty when there is none.
std::string read_link(const std::string& path);
/// Makes names created in or removed from a folder durable.
void sync_dir(const std::string& path);
/// Bytes that may still be written where `path` is or would be; all ones when the system does not
/// say.
uint64_t free_bytes(const std::string& path);

/// The first of prefix1, prefix2, ... that is not there: where what is in the way is moved.
std::string first_free(const std::string& prefix);
/// A name beside `path` for something unfinished; is_temporary() knows it again, also after a
/// crash.
std::string temporary_beside(const std::string& path);
bool is_temporary(std::string_view name);
/// Removes the unfinished files that processes of this machine left in a folder when they were
/// killed: all of them, or those beside the file `of` alone. Call it before this process begins one
/// there. Folders stay, and what cannot be removed.
void sweep_temporaries(const std::string& folder, const std::string& of = "");
/// The folder part of a path; "." when there is none.
std::string parent_of(const std::string& path);
/// Where what was measured of this machine is kept: $XDG_CACHE_HOME/maglev, else ~/.cache/maglev;
/// empty where neither XDG_CACHE_HOME nor HOME is set.
std::string cache_folder();

/// A new file, written once from begin to end. It is under its own name at once: write_atomic, or a
/// folder renamed afterwards, makes it appear as a whole. Destroyed before finish() it removes the
/// file.
class FileWriter {
 public:
  /// Throws when the path exists.
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Everything is on the disk when this returns (fdatasync).
  void finish();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  /// Hash of everything written.
  std::string hash() const { return hash_.hex(); }

 private:
  void flush();

  std::string path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  Hash hash_;
  std::vector<std::byte> buffer_;
};

/// A file that grows: metric rows, logs. Created when it is not there; a pipe or a device is
/// refused.
class AppendFile {
 public:
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes) { pending_.append(bytes); }
  /// Gives everything appended to the system: it then survives the end of this process. When that
  /// fails the file is cut back to its last flushed length (best effort), what was pending is
  /// dropped, and Error is thrown.
  void flush();
  /// flush(), and survives a power cut.
  void sync();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  std::string pending_;
};

/// A regular file read at any place, piece by piece. Where it has become shorter meanwhile, reading
/// throws Error; a mapping would end the process.
class FileReader {
 public:
  explicit FileReader(std::string path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  /// What it had when it was opened.
  uint64_t bytes() const { return bytes_; }
  /// Fills `to` with the bytes from `begin` on.
  void read(uint64_t begin, std::span<std::byte> to) const;
  /// Hash of `count` bytes from `begin` on; reads a piece at a time.
  std::string hash(uint64_t begin, uint64_t count) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

/// An exclusive lock between processes, held while the object lives; the system frees it when the
/// process ends.
class FileLock {
 public:
  /// Creates the file when needed. Throws when another process holds the lock, naming the process.
  explicit FileLock(std::string path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) {
    other.fd_ = -1;
  }
  FileLock& operator=(FileLock&& other) noexcept;

  /// Whether the file at the path is still the one that is locked: it may have been removed, or the
  /// folder around it moved away.
  bool in_place() const;
  /// Where the locked file is now; empty when it was removed, or the system does not say.
  std::string whereabouts() const;

  /// Whether any process (or object) holds it.
  static bool held(const std::string& path);
  /// The process on this machine that holds it; nothing: none does, one of another machine, or one
  /// that may not be looked at.
  static std::optional<int> holder(const std::string& path);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace maglev
