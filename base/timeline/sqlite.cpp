#include "base/timeline/sqlite.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>

#include "base/core/error.h"

namespace maglev {
namespace {

// of sqlite3.h, whose numbers are part of its interface
constexpr int kOk = 0, kRow = 100, kDone = 101, kOpenReadOnly = 1, kNull = 5;

struct SqliteLibrary {
  int (*open)(const char*, void**, int, const char*);
  int (*close)(void*);
  const char* (*message)(void*);
  int (*prepare)(void*, const char*, int, void**, const char**);
  int (*step)(void*);
  int (*finalize)(void*);
  int64_t (*integer)(void*, int);
  const unsigned char* (*text)(void*, int);
  int (*bytes)(void*, int);
  int (*type)(void*, int);
};

template <class Function>
void find_symbol(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (!function) throw Error(std::string("[sqlite] the library has no ") + name);
}

// kept open until the process ends
const SqliteLibrary& sqlite_library() {
  static const SqliteLibrary library = [] {
    const char* named = std::getenv("MAGLEV_SQLITE");
    const char* file = named ? named : "libsqlite3.so.0";
    void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw Error(std::string("[sqlite] ") + file +
                  " cannot be opened, which reads what Nsight Systems exports; install SQLite "
                  "(Debian's libsqlite3-0), or name the library in MAGLEV_SQLITE");
    SqliteLibrary l{};
    find_symbol(handle, "sqlite3_open_v2", l.open);
    find_symbol(handle, "sqlite3_close", l.close);
    find_symbol(handle, "sqlite3_errmsg", l.message);
    find_symbol(handle, "sqlite3_prepare_v2", l.prepare);
    find_symbol(handle, "sqlite3_step", l.step);
    find_symbol(handle, "sqlite3_finalize", l.finalize);
    find_symbol(handle, "sqlite3_column_int64", l.integer);
    find_symbol(handle, "sqlite3_column_text", l.text);
    find_symbol(handle, "sqlite3_column_bytes", l.bytes);
    find_symbol(handle, "sqlite3_column_type", l.type);
    return l;
  }();
  return library;
}

}  // namespace

bool is_sqlite(const std::string& path) {
  constexpr std::string_view kBegin{"SQLite format 3\0", 16};
  char begin[kBegin.size()] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin, sizeof begin) && std::string_view(begin, sizeof begin) == kBegin;
}

SqliteFile::SqliteFile(const std::string& path) : path_(path) {
  const SqliteLibrary& l = sqlite_library();
  if (l.open(path.c_str(), &database_, kOpenReadOnly, nullptr) == kOk) return;
  const std::string why = database_ ? l.message(database_) : "no memory";
  l.close(database_);
  throw Error("[" + path + "] cannot be opened: " + why);
}

SqliteFile::~SqliteFile() { sqlite_library().close(database_); }

bool SqliteFile::has_table(const std::string& table) {
  SqliteRows rows(*this,
                  "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '" + table + "'");
  return rows.next();
}

bool SqliteFile::has_column(const std::string& table, const std::string& column) {
  SqliteRows rows(*this, "PRAGMA table_info(" + table + ")");
  while (rows.next())
    if (rows.text(1) == column) return true;
  return false;
}

SqliteRows::SqliteRows(SqliteFile& file, const std::string& query) : file_(file) {
  const SqliteLibrary& l = sqlite_library();
  if (l.prepare(file.database_, query.c_str(), -1, &statement_, nullptr) != kOk)
    throw Error("[" + file.path_ + "] cannot be read: " + l.message(file.database_));
}

SqliteRows::~SqliteRows() { sqlite_library().finalize(statement_); }

bool SqliteRows::next() {
  const SqliteLibrary& l = sqlite_library();
  const int result = l.step(statement_);
  if (result == kRow) return true;
  if (result == kDone) return false;
  throw Error("[" + file_.path_ + "] cannot be read: " + l.message(file_.database_));
}

int64_t SqliteRows::integer(int column) const {
  return sqlite_library().integer(statement_, column);
}

std::string_view SqliteRows::text(int column) const {
  const SqliteLibrary& l = sqlite_library();
  const auto* text = reinterpret_cast<const char*>(l.text(statement_, column));
  return text ? std::string_view(text, size_t(l.bytes(statement_, column))) : std::string_view();
}

bool SqliteRows::is_null(int column) const {
  return sqlite_library().type(statement_, column) == kNull;
}

}  // namespace maglev
