# Builds with the headers and libraries of an older system, which are in TUTTI_SYSROOT, for the processor of this one:
# what it makes runs with that system's C library and every newer one. scripts/wheel puts them there.
set(CMAKE_SYSROOT ${TUTTI_SYSROOT})
# The compiler's own folders, which are beside this system's libraries, would come first.
file(GLOB folder ${TUTTI_SYSROOT}/usr/lib/*-linux-gnu)
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${folder}")
endforeach()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TUTTI_SYSROOT)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
