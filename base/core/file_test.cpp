#include "base/core/file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file_fault.h"
#include "tests/errors.h"

namespace maglev {
namespace {

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("maglev-file-" + std::to_string(::getpid()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override {
    set_file_fault({});
    std::filesystem::remove_all(dir_);
  }
  std::string in(const std::string& name) const { return dir_ + "/" + name; }
  void fault(const char* text) { set_file_fault(parse_file_fault(text)); }

  std::string dir_;
};

// ends a child at its k-th file operation; false when it came through
bool killed_at(int k, const std::function<void()>& work) {
  pid_t child = ::fork();
  if (child == 0) {
    set_file_fault(parse_file_fault("any:EXIT:" + std::to_string(k)));
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 137 || WEXITSTATUS(status) == 0)) << k;
  return WEXITSTATUS(status) == 137;
}

TEST_F(File, write_atomic_replaces_the_whole_content) {
  write_atomic(in("a"), "the first and longer content");
  write_atomic(in("a"), "second");
  EXPECT_EQ(read_file(in("a"), 100), "second");
  EXPECT_EQ(list_dir(dir_), std::vector<std::string>{"a"});
}

TEST_F(File, an_error_names_the_file_that_was_to_be_written) {
  const std::string error = error_of([&] { write_atomic(in("no/such/a.txt"), "1"); });
  EXPECT_NE(error.find("no/such/a.txt]"), std::string::npos) << error;
  // also in a folder that is unfinished itself, and a name of the user's that only looks so
  const std::string folder = temporary_beside(in("run"));
  const std::string inside = error_of([&] { FileWriter file(folder + "/config.yaml"); });
  EXPECT_NE(inside.find("/run/config.yaml]"), std::string::npos) << inside;
  const std::string odd = error_of([&] { FileWriter file(in("no/x.tmp-1")); });
  EXPECT_NE(odd.find("no/x.tmp-1]"), std::string::npos) << odd;
}

TEST_F(File, a_kill_at_any_operation_of_write_atomic_leaves_old_or_new) {
  std::string before(300000, 'o'), after(400000, 'n');
  int kills = 0;
  for (int k = 1;; ++k) {
    write_atomic(in("a"), before);
    bool killed = killed_at(k, [&] { write_atomic(in("a"), after); });
    std::string found = read_file(in("a"), 1 << 20);
    ASSERT_TRUE(found == before || found == after) << "killed at operation " << k;
    for (const auto& name : list_dir(dir_)) ASSERT_TRUE(name == "a" || is_temporary(name)) << name;
    if (!killed) {
      EXPECT_EQ(found, after);
      break;
    }
    ++kills;
  }
  // open, write, sync, rename, open folder, sync folder
  EXPECT_GE(kills, 6);
}

TEST_F(File, a_failure_of_any_operation_leaves_the_old_file_and_no_temporary) {
  write_atomic(in("a"), "old");
  for (const char* text :
       {"open:ENOSPC:1", "write:ENOSPC:1", "write:EIO:1", "sync:EIO:1", "rename:EROFS:1"}) {
    fault(text);
    std::string error = error_of([&] { write_atomic(in("a"), "new"); });
    set_file_fault({});
    EXPECT_NE(error.find(in("")), std::string::npos) << text << ": " << error;
    EXPECT_EQ(read_file(in("a"), 100), "old") << text;
    EXPECT_EQ(list_dir(dir_), std::vector<std::string>{"a"}) << text;
  }
}

TEST_F(File, a_full_disk_says_what_to_do_in_one_line) {
  fault("write:ENOSPC:1+");
  std::string error = error_of([&] { write_atomic(in("a"), "new"); });
  EXPECT_NE(error.find("No space left on device; free space there, or write elsewhere"),
            std::string::npos)
      << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST_F(File, interrupted_and_short_writes_are_continued) {
  std::string content;
  for (int i = 0; i < 100000; ++i) content += std::to_string(i);
  fault("write:SHORT:1,write:EINTR:2,write:SHORT:3,sync:EINTR:1,rename:EINTR:1,open:EINTR:1");
  write_atomic(in("a"), content);
  EXPECT_EQ(read_file(in("a"), 1 << 20), content);
}

TEST_F(File, an_append_that_fails_takes_nothing_from_the_lines_before) {
  AppendFile file(in("log"));
  file.append("one\n");
  file.flush();
  fault("write:SHORT:1,write:ENOSPC:2");
  file.append("two, of which half is written\n");
  EXPECT_NE(error_of([&] { file.flush(); }), "");
  set_file_fault({});
  file.append("three\n");
  file.flush();
  EXPECT_EQ(read_file(in("log"), 100), "one\nthree\n");
}

TEST_F(File, append_continues_an_existing_file) {
  write_atomic(in("log"), "one\n");
  AppendFile file(in("log"));
  file.append("two\n");
  file.sync();
  EXPECT_EQ(read_file(in("log"), 100), "one\ntwo\n");
}

TEST_F(File, an_unfinished_writer_leaves_nothing) {
  { FileWriter(in("a")).write("half"); }
  EXPECT_FALSE(path_exists(in("a")));
}

TEST_F(File, a_writer_counts_and_hashes_what_it_wrote) {
  std::string big(700000, 'x');
  FileWriter file(in("a"));
  file.write("small");
  file.write(big);
  file.finish();
  EXPECT_EQ(file.bytes(), 700005u);
  EXPECT_EQ(file.hash(), hash_of(read_file(in("a"), 1 << 20)));
  EXPECT_NE(error_of([&] { FileWriter again(in("a")); }), "")
      << "an existing file must not be overwritten";
}

TEST_F(File, reading_refuses_large_files_missing_ones_and_what_is_no_file) {
  write_atomic(in("a"), "12345");
  EXPECT_EQ(read_file(in("a"), 5), "12345");
  EXPECT_NE(error_of([&] { read_file(in("a"), 4); }).find("over 4 bytes"), std::string::npos);
  EXPECT_NE(error_of([&] { read_file(in("none"), 4); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_file(dir_, 4); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of([&] { FileReader("/dev/zero"); }).find("not a regular file"),
            std::string::npos);
}

TEST_F(File, a_reader_gives_any_part_of_it_and_its_hash) {
  const std::string text(3 << 20, 'x');
  write_atomic(in("a"), text + "12345");
  write_atomic(in("empty"), "");
  FileReader file(in("a")), empty(in("empty"));
  std::string part(3, ' ');
  file.read(text.size() + 1, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "234");
  EXPECT_EQ(file.hash(0, file.bytes()), hash_of(std::string_view(text + "12345")));
  EXPECT_EQ(file.hash(text.size(), 5), hash_of(std::string_view("12345")));
  EXPECT_EQ(empty.hash(0, 0), hash_of(std::string_view("")));
}

TEST_F(File, that_is_cut_while_it_is_read_is_an_error) {
  write_atomic(in("a"), std::string(100'000, 'x'));
  FileReader file(in("a"));
  std::filesystem::resize_file(in("a"), 10);
  std::string part(20, ' ');
  EXPECT_NE(error_of([&] {
              file.read(0, std::as_writable_bytes(std::span(part)));
            }).find("was cut to 10 of its 100000 bytes"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file.hash(50, 20); }), "");
}

TEST_F(File, folders_are_made_listed_renamed_and_removed) {
  make_dirs(in("x/y/z"));
  make_dirs(in("x/y/z"));
  EXPECT_FALSE(make_dir(in("x")));
  write_atomic(in("x/y/z/file"), "1");
  replace_link(in("x/link"), "y");
  replace_link(in("x/link"), "y/z");
  EXPECT_EQ(read_link(in("x/link")), "y/z");
  rename_path(in("x"), in("w"));
  EXPECT_EQ(list_dir(in("w")), (std::vector<std::string>{"link", "y"}));
  make_dirs(in("outside/kept"));
  replace_link(in("w/away"), "../outside");
  remove_tree(in("w"));
  EXPECT_EQ(list_dir(dir_), std::vector<std::string>{"outside"});
  EXPECT_TRUE(path_exists(in("outside/kept"))) << "links are removed, not followed";
}

TEST_F(File, a_folder_where_a_file_lies_is_one_error) {
  write_atomic(in("a"), "1");
  EXPECT_NE(error_of([&] { make_dirs(in("a")); }), "");
  EXPECT_NE(error_of([&] { make_dirs(in("a/b")); }), "");
}

TEST_F(File, paths_have_parents_and_temporaries_are_known_again) {
  EXPECT_EQ(parent_of("/a/b"), "/a");
  EXPECT_EQ(parent_of("/a/b/"), "/a");
  EXPECT_EQ(parent_of("a"), ".");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  std::string temporary = temporary_beside("/a/b/");
  EXPECT_TRUE(temporary.starts_with("/a/.b.tmp-")) << temporary;
  EXPECT_TRUE(is_temporary(temporary.substr(3)));
  EXPECT_FALSE(is_temporary("b.tmp-1"));
}

TEST_F(File, a_lock_is_held_by_one_process_at_a_time) {
  EXPECT_FALSE(FileLock::held(in("lock")));
  {
    FileLock lock(in("lock"));
    EXPECT_TRUE(FileLock::held(in("lock")));
    pid_t child = ::fork();
    if (child == 0) {
      std::string error = error_of([&] { FileLock second(in("lock")); });
      ::_exit(error.find("pid " + std::to_string(::getppid())) != std::string::npos ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the second process must be told who holds it";
  }
  EXPECT_FALSE(FileLock::held(in("lock")));
  FileLock again(in("lock"));
}

TEST_F(File, a_locks_holder_is_the_process_that_has_it_open) {
  EXPECT_EQ(FileLock::holder(in("lock")), std::nullopt);
  {
    FileLock lock(in("lock"));
    EXPECT_EQ(FileLock::holder(in("lock")), int(::getpid()));
    // a number that is another process's by now, or of another machine, and none
    for (const std::string& content :
         {"pid " + std::to_string(::getppid()), std::string("pid 0"), std::string()}) {
      std::ofstream(in("lock"), std::ios::trunc) << content;
      EXPECT_EQ(FileLock::holder(in("lock")), std::nullopt) << content;
    }
  }
  EXPECT_EQ(FileLock::holder(in("lock")), std::nullopt);
}

TEST_F(File, a_lock_ends_with_a_killed_process) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    FileLock lock(in("lock"));
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(FileLock::held(in("lock")));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(FileLock::held(in("lock")));
}

TEST_F(File, free_space_is_told_for_paths_that_do_not_exist_yet) {
  EXPECT_GT(free_bytes(in("not/yet/there")), 0u);
}

TEST(FileFaults, malformed_faults_are_refused) {
  for (const char* text : {"write", "write:ENOSPC", "wrote:ENOSPC:1", "write:ENOSPACE:1",
                           "write:ENOSPC:0", "write:ENOSPC:x"})
    EXPECT_NE(error_of([&] { parse_file_fault(text); }), "") << text;
  auto fault = parse_file_fault("write:ENOSPC:2+,any:EIO:1");
  EXPECT_EQ(fault(FileOp::open, ""), EIO);
  EXPECT_EQ(fault(FileOp::write, ""), 0);
  EXPECT_EQ(fault(FileOp::write, ""), ENOSPC);
  EXPECT_EQ(fault(FileOp::sync, ""), 0);
  EXPECT_EQ(fault(FileOp::write, ""), ENOSPC);
}

TEST_F(File, lines_are_read_one_by_one_over_any_piece_boundary_and_a_torn_one_is_left_out) {
  std::vector<std::string> lines;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    lines.push_back(std::string(size_t(i % 701), char('a' + i % 26)));
    text += lines.back() + "\n";
  }
  write_atomic(in("a"), text + "torn");
  std::vector<std::string> read;
  read_lines(in("a"), [&](std::string_view line) { read.emplace_back(line); });
  EXPECT_EQ(read, lines);
  EXPECT_EQ(file_bytes(in("a")), text.size() + 4);
  write_atomic(in("b"), std::string(20 << 20, 'x'));
  EXPECT_TRUE(contains(error_of([&] { read_lines(in("b"), [](std::string_view) {}); }), "16 MiB"));
}

}  // namespace
}  // namespace maglev
