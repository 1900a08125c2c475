# The CUDA kernels: nvcc makes one fat binary of them, which becomes read-only data of the library and is loaded by the
# driver of the host it runs on. Nothing of CUDA is linked. Sets TUTTI_HAVE_CUDA and TUTTI_CUDA_TEXT.
#
#   TUTTI_CUDA                AUTO: where nvcc is found (in PATH, $CUDACXX or $CUDA_HOME/bin); ON: or fail; OFF
#   TUTTI_CUDA_ARCHITECTURES  machine code for these; other GPUs have the driver compile the PTX of the lowest
set(TUTTI_CUDA AUTO CACHE STRING "CUDA kernels: AUTO, ON or OFF")
set_property(CACHE TUTTI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TUTTI_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "GPU architectures with machine code of their own")
set(TUTTI_HAVE_CUDA OFF)

# No contraction, no flush to zero: as the table in plain C.
set(cuda_flags -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -I${CMAKE_CURRENT_SOURCE_DIR}/src)

# Lowest PTX of 7.5 and later that this nvcc knows, and those of the wanted architectures.
function(cuda_codes nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE virtual ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  string(REGEX MATCHALL "[0-9]+" virtual "${virtual}")
  set(lowest 1000)
  foreach(number ${virtual})
    if(number GREATER_EQUAL 75 AND number LESS lowest)
      set(lowest ${number})
    endif()
  endforeach()
  set(codes compute_${lowest})
  set(names)
  foreach(number ${TUTTI_CUDA_ARCHITECTURES})
    if(number IN_LIST known)
      list(APPEND codes sm_${number})
      list(APPEND names sm_${number})
    endif()
  endforeach()
  list(JOIN codes "," codes)
  list(APPEND names "others by PTX of compute_${lowest}")
  list(JOIN names ", " names)
  set(cuda_generate "-gencode=arch=compute_${lowest},code=[${codes}]" PARENT_SCOPE)
  set(TUTTI_CUDA_TEXT "${names}" PARENT_SCOPE)
endfunction()

# The smallest file, where this nvcc can be asked for it.
function(cuda_compression nvcc)
  execute_process(COMMAND ${nvcc} --help OUTPUT_VARIABLE help ERROR_QUIET)
  if(help MATCHES "compress-mode")
    set(cuda_compress --compress-mode=size PARENT_SCOPE)
  endif()
endfunction()

# Whether nvcc gets along with the host's compiler: that is not so everywhere where it is found.
function(cuda_try nvcc)
  set(trial ${CMAKE_CURRENT_BINARY_DIR}/cuda_trial)
  file(WRITE ${trial}.cu "#include <stdint.h>\n__global__ void trial(int *x) { *x = 1; }\n")
  execute_process(COMMAND ${nvcc} -std=c++17 ${cuda_generate} --fatbin -o ${trial}.fatbin ${trial}.cu
    RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT code EQUAL 0)
    string(STRIP "${said}" said)
    set(cuda_trouble "${nvcc} does not compile: ${said}" PARENT_SCOPE)
  endif()
endfunction()

if(TUTTI_CUDA STREQUAL ON OR (TUTTI_CUDA STREQUAL AUTO AND TUTTI_OPTIONAL))
  find_program(TUTTI_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin)
  set(cuda_nvcc ${TUTTI_NVCC})
  if(NOT "$ENV{CUDACXX}" STREQUAL "")
    set(cuda_nvcc $ENV{CUDACXX})
  endif()
  set(cuda_trouble)
  if(cuda_nvcc)
    cuda_codes(${cuda_nvcc})
    cuda_compression(${cuda_nvcc})
    cuda_try(${cuda_nvcc})
  else()
    set(cuda_trouble "nvcc is not found (PATH, CUDACXX, CUDA_HOME)")
  endif()
  if(NOT cuda_trouble)
    set(TUTTI_HAVE_CUDA ON)
  elseif(TUTTI_CUDA STREQUAL ON)
    message(FATAL_ERROR "TUTTI_CUDA is ON, but ${cuda_trouble}")
  else()
    message(STATUS "No CUDA kernels: ${cuda_trouble}")
  endif()
endif()

# Ninja finds the way from the fat binary to the one source that wants it by itself, and compiles the others meanwhile.
if(TUTTI_HAVE_CUDA)
  set(cuda_fatbin ${CMAKE_CURRENT_BINARY_DIR}/tutti_kernels.fatbin)
  add_custom_command(OUTPUT ${cuda_fatbin}
    COMMAND ${cuda_nvcc} ${cuda_flags} ${cuda_generate} ${cuda_compress} --threads 2 --fatbin -o ${cuda_fatbin}
      ${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/kernels.cu
    DEPENDS src/cuda/kernels.cu src/cuda/elements.cuh src/cuda/params_private.h
    VERBATIM COMMENT "Compiling CUDA kernels for ${TUTTI_CUDA_TEXT}")
  if(NOT CMAKE_GENERATOR MATCHES Ninja)
    add_custom_target(tutti_cuda_kernels DEPENDS ${cuda_fatbin})
    cmake_language(DEFER CALL add_dependencies tutti_objects tutti_cuda_kernels)
    cmake_language(DEFER CALL add_dependencies tutti tutti_cuda_kernels)
  endif()
  # Its assembler text is not to be moved by an optimiser of the whole program.
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/image.c PROPERTIES
    COMPILE_DEFINITIONS "TT_CUDA_FATBIN=\"${cuda_fatbin}\";TT_CUDA_FATBIN_TEXT=\"${TUTTI_CUDA_TEXT}\""
    COMPILE_OPTIONS -fno-lto OBJECT_DEPENDS ${cuda_fatbin})
endif()
