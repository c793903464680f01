# Toolchain: g++ of Debian's g++-aarch64-linux-gnu; programs run in qemu's user emulation. Used by the preset "aarch64".
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Without SVE: torch's kernels for it are many times slower when they are emulated.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu max,sve=off -L /usr/aarch64-linux-gnu)
# Programs are this machine's, libraries are not.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../.cache/aarch64/root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
