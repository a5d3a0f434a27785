#include "base/core/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <limits>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/core/error.h"
#include "base/core/file_fault.h"
#include "base/trace/span.h"

namespace maglev {
namespace {

// small pieces are joined into one write; larger ones pass by
constexpr size_t kBufferBytes = 256 << 10;
// the system takes and gives less than 2 GiB a call
constexpr size_t kMaxCallBytes = 1 << 30;
// of a file that is hashed
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kMaxLineBytes = 16 << 20;
constexpr std::string_view kTemporary = ".tmp-";

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there, or write elsewhere";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; mend its permissions, or write elsewhere";
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    case EIO:
      return "; the disk reports a fault: check it before going on";
    case EFBIG:
      return "; the file size limit (ulimit -f) is reached";
    case EMFILE:
    case ENFILE:
      return "; too many files are open (ulimit -n)";
    case EEXIST:
      return "; remove it or choose another name";
    default:
      return "";
  }
}

// the name that something unfinished will have
std::string final_name(std::string path) {
  for (size_t at; (at = path.find(kTemporary)) != std::string::npos;) {
    const size_t slash = path.rfind('/', at), begin = slash == std::string::npos ? 0 : slash + 1;
    if (path[begin] != '.') return path;
    path.erase(at, path.find('/', at) - at).erase(begin, 1);
  }
  return path;
}

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw Error("[" + final_name(path) + "] " + what + ": " + std::system_category().message(error) +
              advice(error));
}

// one operation with its injected fault; interrupted ones are repeated. -1 and errno on failure
template <class Call>
int attempt(FileOp op, const std::string& path, Call call) {
  for (;;) {
    int fault = file_fault(op, path);
    int result = -1;
    if (fault != kFaultNone) errno = fault;
    else result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// a regular file; never waits on a pipe
int open_for_writing(const std::string& path, int flags) {
  flags |= O_CREAT | O_CLOEXEC | O_NONBLOCK;
  int fd = attempt(FileOp::open, path, [&] { return ::open(path.c_str(), flags, 0644); });
  // a pipe that nobody reads says ENXIO
  if (fd < 0 && errno != ENXIO) fail(path, "cannot be created", errno);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd >= 0) ::close(fd);
    throw Error("[" + path + "] is not a regular file; remove it or choose another name");
  }
  return fd;
}

// a regular file and its size; never waits on a pipe
int open_for_reading(const std::string& path, struct stat& info) {
  int fd = attempt(FileOp::read, path,
                   [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) fail(path, "cannot be read", errno);
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error("[" + path + "] is not a regular file; check the path");
  }
  return fd;
}

// returns 0 or the errno of the write that failed
int write_all(int fd, const std::string& path, const std::byte* data, size_t size) {
  while (size > 0) {
    size_t most = std::min(size, kMaxCallBytes);
    int fault = file_fault(FileOp::write, path);
    // a short write puts half of its bytes, and so does an exit
    if (fault == kFaultShort || fault == kFaultExit) most = (most + 1) / 2;
    ssize_t written = -1;
    if (fault > 0) errno = fault;
    else written = ::write(fd, data, most);
    if (fault == kFaultExit) ::_exit(137);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= size_t(written);
  }
  return 0;
}

// a link is none
bool is_own_folder(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// gone already is fine
int unlink_any(const std::string& path) {
  int result = attempt(FileOp::unlink, path, [&] {
    return is_own_folder(path) ? ::rmdir(path.c_str()) : ::unlink(path.c_str());
  });
  return result < 0 && errno != ENOENT ? errno : 0;
}

void sync_file(int fd, const std::string& path) {
  if (attempt(FileOp::sync, path, [&] { return ::fdatasync(fd); }) < 0)
    fail(path, "sync failed", errno);
}

}  // namespace

std::string parent_of(const std::string& path) {
  // slashes at the end belong to no name
  size_t end = path.find_last_not_of('/');
  size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  if (slash == std::string::npos) return path.starts_with('/') ? "/" : ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string cache_folder() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache) return std::string(cache) + "/maglev";
  return home && *home ? std::string(home) + "/.cache/maglev" : "";
}

std::string first_free(const std::string& prefix) {
  for (int n = 1;; ++n)
    if (std::string path = prefix + std::to_string(n); !path_exists(path)) return path;
}

std::string temporary_beside(const std::string& path) {
  static std::atomic<uint64_t> count{0};
  size_t end = path.find_last_not_of('/') + 1;
  size_t slash = path.rfind('/', end - 1);
  size_t name = slash == std::string::npos ? 0 : slash + 1;
  // hidden, and this process's alone: .NAME.tmp-PID-COUNT
  return path.substr(0, name) + "." + path.substr(name, end - name) + std::string(kTemporary) +
         std::to_string(::getpid()) + "-" + std::to_string(count++);
}

bool is_temporary(std::string_view name) {
  return name.starts_with('.') && name.find(kTemporary) != std::string_view::npos;
}

void sweep_temporaries(const std::string& folder, const std::string& of) {
  for (const auto& name : list_dir(folder)) {
    if (!is_temporary(name) || is_own_folder(folder + "/" + name)) continue;
    if (!of.empty() && !name.starts_with("." + of + std::string(kTemporary))) continue;
    // it belongs to the process whose number it carries
    int pid = 0;
    const char* number = name.data() + name.rfind(kTemporary) + kTemporary.size();
    std::from_chars(number, name.data() + name.size(), pid);
    if (pid > 0 && pid != ::getpid() && (::kill(pid, 0) == 0 || errno != ESRCH)) continue;
    unlink_any(folder + "/" + name);
  }
}

std::string read_file(const std::string& path, size_t limit) {
  struct stat info;
  int fd = open_for_reading(path, info);
  std::string text;
  int error = 0;
  // a file over the limit is not read at all
  if (uint64_t(info.st_size) <= limit) {
    // one byte more than expected shows a file that grew
    text.resize(size_t(info.st_size) + 1);
    size_t size = 0;
    for (;;) {
      ssize_t got = ::read(fd, text.data() + size, text.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error = errno;
      if (got <= 0) break;
      size += size_t(got);
      if (size > limit) break;
      // it grew: go on as far as the limit
      if (size == text.size()) text.resize(std::min(limit, 2 * size) + 1);
    }
    text.resize(size);
  }
  ::close(fd);
  if (error) fail(path, "reading failed", error);
  if (uint64_t(info.st_size) > limit || text.size() > limit)
    throw Error("[" + path + "] is over " + std::to_string(limit) +
                " bytes, the most such a file may have");
  return text;
}

void read_lines(const std::string& path, const std::function<void(std::string_view)>& line) {
  struct Opened {
    int fd;
    ~Opened() { ::close(fd); }
  };
  struct stat info;
  const Opened file{open_for_reading(path, info)};
  std::string text;
  size_t seen = 0;  // of text, without an end in it
  int error = 0;
  while (!error && text.size() <= kMaxLineBytes) {
    // another piece behind what is left of a line
    const size_t size = text.size();
    text.resize(size + kBufferBytes);
    const ssize_t got = ::read(file.fd, text.data() + size, kBufferBytes);
    text.resize(size + size_t(std::max<ssize_t>(0, got)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    // whole lines go, what is left waits for its end
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', std::max(begin, seen))) != std::string::npos;
         begin = end + 1)
      line(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
    seen = text.size();
  }
  if (error) fail(path, "reading failed", error);
  if (text.size() > kMaxLineBytes)
    throw Error("[" + path + "] has a line of more than 16 MiB; is it what its name says?");
}

uint64_t file_bytes(const std::string& path) {
  struct stat info;
  ::close(open_for_reading(path, info));
  return uint64_t(info.st_size);
}

void write_atomic(const std::string& path, std::string_view bytes) {
  // first all bytes onto the disk under another name
  std::string temporary = temporary_beside(path);
  {
    FileWriter file(temporary);
    file.write(bytes);
    file.finish();
  }
  // at once: readers find the old bytes before and the new ones after
  if (attempt(FileOp::rename, path, [&] { return ::rename(temporary.c_str(), path.c_str()); }) <
      0) {
    int error = errno;
    unlink_any(temporary);
    fail(path, "cannot be replaced", error);
  }
  // the new name, too, survives a power cut
  sync_dir(parent_of(path));
}

bool path_exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool make_dir(const std::string& path) {
  if (attempt(FileOp::open, path, [&] { return ::mkdir(path.c_str(), 0755); }) == 0) return true;
  if (errno != EEXIST) fail(path, "folder cannot be made", errno);
  return false;
}

void make_dirs(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) fail(path, "folder cannot be made", EEXIST);
    return;
  }
  std::string parent = parent_of(path);
  if (parent != path) make_dirs(parent);
  // somebody else may make it at the same moment
  if (make_dir(path)) sync_dir(parent);
}

std::vector<std::string> list_dir(const std::string& path) {
  std::vector<std::string> names;
  DIR* folder = ::opendir(path.c_str());
  if (!folder) {
    if (errno == ENOENT) return names;
    fail(path, "folder cannot be listed", errno);
  }
  while (const dirent* entry = ::readdir(folder)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

void remove_path(const std::string& path) {
  if (int error = unlink_any(path)) fail(path, "cannot be removed", error);
}

void remove_tree(const std::string& path) {
  if (is_own_folder(path))
    for (const auto& name : list_dir(path)) remove_tree(path + "/" + name);
  remove_path(path);
}

void rename_path(const std::string& from, const std::string& to) {
  if (attempt(FileOp::rename, to, [&] { return ::rename(from.c_str(), to.c_str()); }) < 0)
    fail(to, ("cannot be renamed from " + from).c_str(), errno);
  sync_dir(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_dir(parent_of(from));
}

void replace_link(const std::string& path, const std::string& target) {
  // a link cannot be rewritten: another is made and renamed over it
  std::string temporary = temporary_beside(path);
  if (attempt(FileOp::open, temporary,
              [&] { return ::symlink(target.c_str(), temporary.c_str()); }) < 0)
    fail(path, "link cannot be made", errno);
  if (attempt(FileOp::rename, path, [&] { return ::rename(temporary.c_str(), path.c_str()); }) <
      0) {
    int error = errno;
    unlink_any(temporary);
    fail(path, "link cannot be replaced", error);
  }
  sync_dir(parent_of(path));
}

std::string read_link(const std::string& path) {
  char target[4096];
  ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  return size < 0 ? std::string() : std::string(target, size_t(size));
}

void sync_dir(const std::string& path) {
  int fd = attempt(FileOp::read, path,
                   [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) fail(path, "folder cannot be opened", errno);
  int result = attempt(FileOp::sync, path, [&] { return ::fsync(fd); });
  int error = errno;
  ::close(fd);
  // some network filesystems have no sync of folders
  if (result < 0 && error != EINVAL && error != ENOTSUP) fail(path, "folder sync failed", error);
}

uint64_t free_bytes(const std::string& path) {
  struct statvfs info;
  // of the nearest folder that is there
  std::string at = path;
  while (::statvfs(at.c_str(), &info) != 0) {
    std::string parent = parent_of(at);
    if (parent == at) return std::numeric_limits<uint64_t>::max();
    at = parent;
  }
  return uint64_t(info.f_bavail) * info.f_frsize;
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  fd_ = open_for_writing(path_, O_WRONLY | O_EXCL | O_NOFOLLOW);
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  unlink_any(path_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  hash_.add(bytes);
  // bytes go out in order: those that wait before these
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() < kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  } else if (int error = write_all(fd_, path_, bytes.data(), bytes.size())) {
    fail(path_, "write failed", error);
  }
}

void FileWriter::flush() {
  int error = write_all(fd_, path_, buffer_.data(), buffer_.size());
  buffer_.clear();
  if (error) fail(path_, "write failed", error);
}

void FileWriter::finish() {
  const auto span = trace::wait("disk", "io");
  flush();
  sync_file(fd_, path_);
  int fd = fd_;
  fd_ = -1;
  // network filesystems may report a failed write only here
  if (::close(fd) != 0 && errno != EINTR) {
    int error = errno;
    unlink_any(path_);
    fail(path_, "close failed", error);
  }
}

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {
  fd_ = open_for_writing(path_, O_WRONLY | O_APPEND);
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::flush() {
  if (pending_.empty()) return;
  struct stat before;
  bool known = ::fstat(fd_, &before) == 0;
  int error =
      write_all(fd_, path_, reinterpret_cast<const std::byte*>(pending_.data()), pending_.size());
  pending_.clear();
  if (!error) return;
  // half a line would spoil the file for its readers
  if (known && ::ftruncate(fd_, before.st_size) != 0) error = errno;
  fail(path_, "write failed", error);
}

void AppendFile::sync() {
  flush();
  sync_file(fd_, path_);
}

FileReader::FileReader(std::string path) : path_(std::move(path)) {
  struct stat info;
  fd_ = open_for_reading(path_, info);
  bytes_ = uint64_t(info.st_size);
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::read(uint64_t begin, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), std::min(to.size(), kMaxCallBytes), off_t(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "reading failed", errno);
    if (got == 0)
      throw Error("[" + path_ + "] was cut to " + std::to_string(begin) + " of its " +
                  std::to_string(bytes_) +
                  " bytes while it was read; is another process writing it?");
    begin += uint64_t(got);
    to = to.subspan(size_t(got));
  }
}

std::string FileReader::hash(uint64_t begin, uint64_t count) const {
  Hash hash;
  std::vector<std::byte> piece(size_t(std::min<uint64_t>(count, kPieceBytes)));
  for (uint64_t done = 0; done < count; done += piece.size()) {
    piece.resize(size_t(std::min<uint64_t>(count - done, kPieceBytes)));
    read(begin + done, piece);
    hash.add(piece);
  }
  return hash.hex();
}

FileLock::FileLock(std::string path) : path_(std::move(path)) {
  fd_ = open_for_writing(path_, O_RDWR | O_NOFOLLOW);
  // held() of another process takes it for an instant: try for a moment
  for (int tries = 0; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
    int error = errno;
    if (error == EINTR) continue;
    if (error == EWOULDBLOCK && tries < 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    // say who holds it: its number is in the file
    char owner[32] = {};
    ssize_t size = ::pread(fd_, owner, sizeof owner - 1, 0);
    ::close(fd_);
    fd_ = -1;
    if (error != EWOULDBLOCK) fail(path_, "cannot be locked", error);
    throw Error("[" + path_ + "] is held by another process" +
                (size > 0 ? " (" + std::string(owner, size_t(size)) + ")" : std::string()) +
                "; wait for it to end, stop it, or choose another --out");
  }
  std::string owner = "pid " + std::to_string(::getpid());
  // for people and holder()
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, owner.data(), owner.size(), 0) < 0) errno = 0;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

bool FileLock::in_place() const {
  struct stat locked, found;
  // a filesystem that does not answer just now says nothing
  if (::stat(path_.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
  return ::fstat(fd_, &locked) == 0 && locked.st_dev == found.st_dev &&
         locked.st_ino == found.st_ino;
}

std::string FileLock::whereabouts() const {
  struct stat info;
  // a removed file is nowhere
  if (::fstat(fd_, &info) != 0 || info.st_nlink == 0) return "";
  return read_link("/proc/self/fd/" + std::to_string(fd_));
}

bool FileLock::held(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  // a shared lock is refused only where somebody has the exclusive one
  bool is_held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return is_held;
}

std::optional<int> FileLock::holder(const std::string& path) {
  constexpr std::string_view kPid = "pid ";
  if (!held(path)) return std::nullopt;
  const std::string owner = read_file(path, 64);
  if (!owner.starts_with(kPid)) return std::nullopt;
  const int pid = std::atoi(owner.c_str() + kPid.size());
  // another machine has other processes by that number: it is the one that has the file open
  struct stat locked, open;
  if (pid <= 0 || ::stat(path.c_str(), &locked) != 0) return std::nullopt;
  const std::string files = "/proc/" + std::to_string(pid) + "/fd";
  if (::access(files.c_str(), R_OK) != 0) return std::nullopt;
  for (const std::string& number : list_dir(files))
    if (::stat((files + "/" + number).c_str(), &open) == 0 && open.st_dev == locked.st_dev &&
        open.st_ino == locked.st_ino)
      return pid;
  return std::nullopt;
}

}  // namespace maglev
