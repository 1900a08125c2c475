# Builds for AArch64 on another machine with Debian's cross compiler; programs of the build, and so the tests, run under
# qemu. Libraries for AArch64 are looked for under TUTTI_SYSROOT (scripts/test aarch64 puts them there).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_FLAGS_INIT "-isystem ${TUTTI_SYSROOT}/usr/include/aarch64-linux-gnu")

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TUTTI_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${TUTTI_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
