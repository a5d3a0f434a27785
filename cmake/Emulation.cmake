# An emulated CUDA device, for tests on every machine: all device code once more by the host's compiler, in a library of
# its own, whose inline functions do not meet the host's copies of them.
include_guard()

# loads and stores of kernels come to the emulator as calls, unless AddressSanitizer watches them
set(MAGLEV_EMULATION_CHECKS ON)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(MAGLEV_EMULATION_CHECKS OFF)
endif()

# `target`: the emulator's sources, given, and every .cu of the tree and of each environment that was built
function(maglev_emulated_device target)
  maglev_places(places kernels base tests/emulation)
  list(TRANSFORM places APPEND /*.cu)
  file(GLOB_RECURSE device_code CONFIGURE_DEPENDS ${places})
  get_property(environments GLOBAL PROPERTY MAGLEV_DEVICE_ENVIRONMENTS)
  list(TRANSFORM environments PREPEND ${MAGLEV_GENERATED}/env_)
  list(TRANSFORM environments APPEND .cu)
  list(APPEND device_code ${environments})
  set(emulation ${CMAKE_SOURCE_DIR}/tests/emulation/include)
  # kernels are read as nvcc reads them; memory functions stay calls, which the linker turns to the emulator
  set(flags -O1 -include ${emulation}/cuda_runtime.h -D__CUDACC__ -D__CUDA_ARCH__=800 -Wno-unknown-pragmas)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
    # statics stay beside those that they are written beside: behind what is shared lies what nobody may touch
    list(APPEND flags -fno-section-anchors)
  endif()
  if(MAGLEV_EMULATION_CHECKS)
    list(APPEND flags -fsanitize=thread -fno-builtin-memcpy -fno-builtin-memset)
  endif()
  set_source_files_properties(${device_code} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${flags}")
  add_library(${target} SHARED ${ARGN} ${device_code})
  target_include_directories(${target} BEFORE PUBLIC ${emulation})
  target_link_libraries(${target} PRIVATE maglev_dependencies)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${MAGLEV_GENERATED})
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
  if(MAGLEV_EMULATION_CHECKS)
    target_compile_definitions(${target} PRIVATE MAGLEV_EMULATION_CHECKS_MEMORY=1)
    target_link_options(${target} PRIVATE -Wl,--wrap=memcpy,--wrap=memset)
  endif()
endfunction()

# env_table() over the environments of `dirs` with the device code of the emulated device
function(maglev_emulated_env_table target)
  get_property(with_code GLOBAL PROPERTY MAGLEV_DEVICE_ENVIRONMENTS)
  set(declarations "using Launch = int(const EnvBatch&, const StepIo&, int64_t, void*);
static EnvEntry emulated(EnvEntry row, Launch* reset, Launch* step) {
  row.reset_cuda = reset, row.step_cuda = step;
  return row;
}
")
  maglev_environments_of(all ${ARGN})
  set(rows)
  foreach(name IN LISTS all)
    string(APPEND declarations "namespace envs::${name} { EnvEntry entry(); Launch reset_cuda, step_cuda; }\n")
    if(name IN_LIST with_code)
      string(APPEND rows "      emulated(envs::${name}::entry(), envs::${name}::reset_cuda, envs::${name}::step_cuda),\n")
    else()
      string(APPEND rows "      envs::${name}::entry(),\n")
    endif()
  endforeach()
  maglev_write_table(${target} ${target}_env_table EnvEntry env_table base/env/entry.h "${declarations}" "${rows}")
  maglev_left_out_table(${target})
endfunction()
