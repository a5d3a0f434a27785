# Device code. nvcc compiles each .cu alone, without torch: CMake 3.25 does not pass C++20 to nvcc 13, so the flags
# are given here and CUDA is no CMake language of ours.
#   MAGLEV_DEVICE_CODE  ON: kernels are linked in (torch has CUDA and nvcc is there)
#   MAGLEV_CUDA=CHECK   kernels are compiled and left out, to keep them compiling where there is no GPU
include_guard()

find_program(MAGLEV_NVCC nvcc HINTS /usr/local/cuda/bin)
if(NOT DEFINED MAGLEV_CUDA_ARCHITECTURES)
  include(${CMAKE_CURRENT_LIST_DIR}/Capabilities.cmake)
  maglev_capabilities(here "${MAGLEV_NVCC}")
endif()
set(MAGLEV_CUDA_ARCHITECTURES "${here}" CACHE STRING "Compute capabilities to build for")

# a toolkit of another major version than torch's has other headers and another runtime
set(MAGLEV_CUDA_APART "")
if(MAGLEV_NVCC AND MAGLEV_TORCH_CUDA)
  execute_process(COMMAND ${MAGLEV_NVCC} --version OUTPUT_VARIABLE told ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)[.0-9]*" ours "${told}")
  set(our_major ${CMAKE_MATCH_1})
  file(STRINGS ${MAGLEV_TORCH}/version.py told REGEX "^cuda")
  string(REGEX MATCH "'([0-9]+)[.0-9]*'" theirs "${told}")
  if(ours AND theirs AND NOT our_major STREQUAL CMAKE_MATCH_1)
    string(REPLACE "release " "" ours ${ours})
    string(REPLACE "'" "" theirs ${theirs})
    set(MAGLEV_CUDA_APART "nvcc is of CUDA ${ours} and torch of CUDA ${theirs}")
  endif()
endif()

set(MAGLEV_DEVICE_CODE OFF)
set(MAGLEV_CUDA_CHECK OFF)
if(MAGLEV_CUDA STREQUAL "ON" OR (MAGLEV_CUDA STREQUAL "AUTO" AND MAGLEV_TORCH_CUDA AND MAGLEV_NVCC AND NOT MAGLEV_CUDA_APART))
  if(NOT MAGLEV_NVCC)
    message(FATAL_ERROR "MAGLEV_CUDA=ON needs nvcc on PATH or in /usr/local/cuda/bin")
  endif()
  if(MAGLEV_CUDA_APART)
    message(FATAL_ERROR "${MAGLEV_CUDA_APART}: install that toolkit, or the torch that was built for this one, or pass -DMAGLEV_NVCC=<toolkit>/bin/nvcc")
  endif()
  set(MAGLEV_DEVICE_CODE ON)
elseif(MAGLEV_NVCC AND NOT MAGLEV_CUDA STREQUAL "OFF" AND NOT (MAGLEV_CUDA STREQUAL "AUTO" AND MAGLEV_CUDA_APART))
  set(MAGLEV_CUDA_CHECK ON)
elseif(MAGLEV_CUDA STREQUAL "CHECK")
  message(FATAL_ERROR "MAGLEV_CUDA=CHECK needs nvcc on PATH or in /usr/local/cuda/bin")
endif()

# the toolkit's folder as nvcc itself knows it, for what is on PATH may be a link or a script elsewhere; asked each time,
# for what a link leads to may change
if(MAGLEV_NVCC)
  execute_process(COMMAND ${MAGLEV_NVCC} --dryrun -x cu -c /dev/null -o /dev/null ERROR_VARIABLE told OUTPUT_QUIET)
  get_filename_component(root ${MAGLEV_NVCC} DIRECTORY)
  if(told MATCHES "#\\$ TOP=([^\n]*)")
    set(root ${CMAKE_MATCH_1}/bin)
  endif()
  get_filename_component(MAGLEV_CUDA_ROOT ${root}/.. REALPATH)
endif()
# ranges for NVIDIA's profilers are headers alone, the toolkit's or those that came with torch
file(GLOB nvtx_places ${MAGLEV_TORCH}/../nvidia/*/include)
find_path(MAGLEV_NVTX nvtx3/nvToolsExt.h HINTS ${MAGLEV_CUDA_ROOT}/include ${nvtx_places} NO_DEFAULT_PATH)

# torch's CUDA headers include the toolkit's
if(MAGLEV_DEVICE_CODE AND TARGET maglev_torch)
  target_include_directories(maglev_torch SYSTEM INTERFACE ${MAGLEV_CUDA_ROOT}/include)
endif()

# for people: maglev doctor says it
list(JOIN MAGLEV_CUDA_ARCHITECTURES ", sm_" MAGLEV_DEVICE_CODE_STATE)
if(MAGLEV_DEVICE_CODE)
  set(MAGLEV_DEVICE_CODE_STATE "built for sm_${MAGLEV_DEVICE_CODE_STATE}")
elseif(MAGLEV_CUDA STREQUAL "AUTO" AND MAGLEV_CUDA_APART)
  set(MAGLEV_DEVICE_CODE_STATE "none, ${MAGLEV_CUDA_APART}")
  message(WARNING "no device code: ${MAGLEV_CUDA_APART}; install that toolkit to use a GPU")
elseif(MAGLEV_CUDA_CHECK)
  set(MAGLEV_DEVICE_CODE_STATE "compile-checked only, torch here has no CUDA")
elseif(MAGLEV_NVCC)
  set(MAGLEV_DEVICE_CODE_STATE "switched off with MAGLEV_CUDA=OFF")
else()
  set(MAGLEV_DEVICE_CODE_STATE "none, nvcc was not found")
endif()

# what keeps an operation's bits those of the CPU: no multiplication and addition in one rounding. A kernel that promises
# a tolerance instead says so in a file nvcc.txt of its folder, whose flags, one a line, take the place of these
set(MAGLEV_NVCC_EXACT --fmad=false)
set(MAGLEV_NVCC_FLAGS -std=c++20 -O2 --expt-relaxed-constexpr -Xcompiler -fPIC,-ffp-contract=off
    -I${CMAKE_SOURCE_DIR} -I${MAGLEV_GENERATED})
# what is only checked is so by the newest, whose instructions are all there
set(built_for ${MAGLEV_CUDA_ARCHITECTURES})
if(NOT MAGLEV_DEVICE_CODE)
  list(GET built_for -1 built_for)
endif()
foreach(arch IN LISTS built_for)
  list(APPEND MAGLEV_NVCC_FLAGS -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
# and for newer ones than the last of these, which compile it when they load it
if(MAGLEV_DEVICE_CODE)
  list(GET MAGLEV_CUDA_ARCHITECTURES -1 newest)
  list(APPEND MAGLEV_NVCC_FLAGS -gencode=arch=compute_${newest},code=compute_${newest})
endif()

# a source's place in the tree as one word, so that two files of one name do not meet
function(maglev_flat_name source out)
  string(REPLACE ${CMAKE_BINARY_DIR}/ "" name ${source})
  string(REPLACE ${CMAKE_SOURCE_DIR}/ "" name ${name})
  string(REGEX REPLACE "[^A-Za-z0-9_]" "_" name ${name})
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# flags of the folder that `source` lies in
function(maglev_nvcc_flags source out)
  get_filename_component(folder ${source} DIRECTORY)
  file(GLOB own CONFIGURE_DEPENDS ${folder}/nvcc.txt)
  set(flags ${MAGLEV_NVCC_EXACT})
  if(own)
    file(STRINGS ${own} flags REGEX "^[^#]")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${own})
  endif()
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()

# compiles one .cu; its object is linked into `target`, or only checked
function(maglev_cuda_source target source)
  if(NOT MAGLEV_DEVICE_CODE AND NOT MAGLEV_CUDA_CHECK)
    return()
  endif()
  maglev_flat_name(${source} name)
  maglev_nvcc_flags(${source} flags)
  set(object ${CMAKE_BINARY_DIR}/device/${name}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/device
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${MAGLEV_NVCC} ${MAGLEV_NVCC_FLAGS} ${flags} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "nvcc ${name}" VERBATIM)
  if(MAGLEV_DEVICE_CODE)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  else()
    add_custom_target(cuda_check_${name} ALL DEPENDS ${object})
  endif()
endfunction()

# every .cu of kernels/ and base/, and the CUDA runtime
function(maglev_device_code target)
  maglev_places(places kernels base)
  list(TRANSFORM places APPEND /*.cu)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${places})
  foreach(source IN LISTS sources)
    maglev_cuda_source(${target} ${source})
  endforeach()
  if(MAGLEV_DEVICE_CODE)
    target_compile_definitions(${target} PUBLIC MAGLEV_DEVICE_CODE=1)
    # toolkits for servers of ARM name their folder otherwise
    set(places ${MAGLEV_CUDA_ROOT}/lib64 ${MAGLEV_CUDA_ROOT}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib
               ${MAGLEV_CUDA_ROOT}/targets/sbsa-linux/lib)
    unset(MAGLEV_CUDART CACHE)
    find_library(MAGLEV_CUDART cudart HINTS ${places} REQUIRED)
    target_link_libraries(${target} PUBLIC ${MAGLEV_CUDART})
  endif()
endfunction()

# where torch has no CUDA, the C++ that only builds with device code have is checked against the headers of both, tests
# too. What operations say in `launch` is compiled for the emulated device (tests/CMakeLists.txt)
function(maglev_check_device_cpp)
  if(NOT MAGLEV_CUDA_CHECK)
    return()
  endif()
  maglev_sources(sources engine kernels networks algos verbs)
  maglev_test_sources(tests engine kernels networks algos verbs tests)
  list(APPEND sources ${tests})
  set(objects)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} found REGEX "MAGLEV_DEVICE_CODE([^_]|$)|kDeviceCode" LIMIT_COUNT 1)
    if(NOT found)
      continue()
    endif()
    maglev_flat_name(${source} name)
    # an object that nothing links: ccache keeps it, and not what is only parsed
    set(object ${CMAKE_BINARY_DIR}/device/${name}.checked.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/device
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CMAKE_CXX_COMPILER} -std=c++20 -Wall -Wextra -Wno-missing-field-initializers
              -DMAGLEV_DEVICE_CODE=1 -DC10_CUDA_NO_CMAKE_CONFIGURE_FILE -I${CMAKE_SOURCE_DIR} -I${MAGLEV_GENERATED}
              -isystem ${MAGLEV_TORCH}/include -isystem ${MAGLEV_TORCH}/include/torch/csrc/api/include
              -isystem ${MAGLEV_CUDA_ROOT}/include -MMD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "checking ${name} with device code" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_target(cuda_check_cpp ALL DEPENDS ${objects})
endfunction()
