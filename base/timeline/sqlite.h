#pragma once
// Rows of a database of SQLite, read only. The library is opened at run time (libsqlite3.so.0, or
// the file that MAGLEV_SQLITE names), so that nobody needs it who has no such file.
// Threads: an object belongs to one thread.

#include <cstdint>
#include <string>
#include <string_view>

namespace maglev {

/// Whether a file begins as SQLite's do.
bool is_sqlite(const std::string& path);

class SqliteRows;

class SqliteFile {
 public:
  /// Throws Error where the library is missing, with what to install, or the file cannot be read.
  explicit SqliteFile(const std::string& path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  bool has_table(const std::string& table);
  bool has_column(const std::string& table, const std::string& column);

 private:
  friend class SqliteRows;
  std::string path_;
  void* database_ = nullptr;
};

/// The answer of one query, row by row.
class SqliteRows {
 public:
  /// Throws Error where the query is refused: tables of another shape, or a damaged file.
  SqliteRows(SqliteFile& file, const std::string& query);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  /// The next row; false: there are none. Throws Error where the file is damaged.
  bool next();
  int64_t integer(int column) const;
  /// Until the next row; empty: there is none.
  std::string_view text(int column) const;
  bool is_null(int column) const;

 private:
  SqliteFile& file_;
  void* statement_ = nullptr;
};

}  // namespace maglev
