#pragma once
// Injected failures of file operations. Every operation of base/core/file.h asks here first, so a
// test can let each one fail in turn, or end the process at it, and look at what a reader finds
// afterwards.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace maglev {

/// open: create or open a file for writing, make a folder or a link. read: open for reading. write:
/// one write call. sync: fdatasync or fsync, of a file or a folder. rename, unlink: as named;
/// unlink is also rmdir.
enum class FileOp : uint8_t { open, read, write, sync, rename, unlink };

/// Answers of a fault besides an errno. Short: half of the bytes are written and the call reports
/// so. Exit: the process ends at once with status 137, as after kill -9; a write has then put half
/// of its bytes.
constexpr int kFaultNone = 0;
constexpr int kFaultShort = -1;
constexpr int kFaultExit = -2;

/// Called before each operation, from any thread, one call at a time. Returns kFaultNone to let it
/// happen, an errno to fail it (EINTR is retried, as the real one is), kFaultShort or kFaultExit.
using FileFault = std::function<int(FileOp op, const std::string& path)>;

/// Installs a fault for the whole process; an empty one removes it.
void set_file_fault(FileFault fault);

/// A fault from text: "write:ENOSPC:7" fails the 7th write, "write:ENOSPC:7+" that and all later
/// ones, "any:EXIT:12" ends the process at the 12th operation of any kind, "write:SHORT:1" cuts the
/// first write in half. Several are separated by commas. The environment variable MAGLEV_FAULT
/// installs one at the first operation. Throws Error when the text is not of this form.
FileFault parse_file_fault(std::string_view text);

/// Asks the installed fault. kFaultExit is carried out here, but for writes, which put half of
/// their bytes first.
int file_fault(FileOp op, const std::string& path);

}  // namespace maglev
