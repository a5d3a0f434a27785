# Toolchain: builds for 64-bit ARM Linux on another machine, with Debian's g++-aarch64-linux-gnu. What was built runs there
# through qemu-aarch64 (qemu-user), tests too.
#   MAGLEV_AARCH64  a folder in which the libraries' arm64 packages were unpacked (docs/installing.md says how)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(MAGLEV_AARCH64 "" CACHE PATH "Folder with the libraries of 64-bit ARM")
# compilers are tried in small projects of their own, which are told this much
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MAGLEV_AARCH64)
set(CMAKE_FIND_ROOT_PATH ${MAGLEV_AARCH64} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(MAGLEV_QEMU qemu-aarch64)
if(MAGLEV_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MAGLEV_QEMU};-L;/usr/aarch64-linux-gnu)
endif()
