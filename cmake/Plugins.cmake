# The plug-in tables. A folder is a plug-in: CMake reads the folder list and writes one readable table; there are no
# registrars and no list kept by hand.
include_guard()

set(MAGLEV_GENERATED ${CMAKE_BINARY_DIR}/generated)

set(MAGLEV_PLUGINS "" CACHE STRING "Folders beside this one whose envs/, networks/, algos/, ... are built in too")

# folders that plug-ins lie in, here and in the folders of MAGLEV_PLUGINS
set(MAGLEV_PLUGIN_ROOMS envs kernels sinks networks algos verbs)

# all that the given paths stand for: that of this checkout, and those of MAGLEV_PLUGINS where it is of a room of plug-ins
function(maglev_places out)
  list(JOIN MAGLEV_PLUGIN_ROOMS "|" rooms)
  set(places)
  foreach(path IN LISTS ARGN)
    list(APPEND places ${CMAKE_SOURCE_DIR}/${path})
    if(path MATCHES "^(${rooms})(/|$)")
      list(TRANSFORM MAGLEV_PLUGINS APPEND /${path} OUTPUT_VARIABLE theirs)
      list(APPEND places ${theirs})
    endif()
  endforeach()
  set(${out} "${places}" PARENT_SCOPE)
endfunction()

# the folder of a plug-in by its path, "envs/x", in the checkout or in one of MAGLEV_PLUGINS
function(maglev_place out path)
  maglev_places(places ${path})
  foreach(place IN LISTS places)
    if(EXISTS ${place})
      set(${out} ${place} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# What lies in the rooms of MAGLEV_PLUGINS as links of one tree in generated/, where `#include "envs/x/x.h"` finds it with
# the flags that all have, so that another list compiles nothing anew but what is in it. A name is one plug-in's.
function(maglev_link_plugins)
  foreach(room IN LISTS MAGLEV_PLUGIN_ROOMS)
    # links are removed, never what they lead to
    file(GLOB links LIST_DIRECTORIES true ${MAGLEV_GENERATED}/${room}/*)
    foreach(link IN LISTS links)
      if(IS_SYMLINK ${link})
        file(REMOVE ${link})
      endif()
    endforeach()
    foreach(folder IN LISTS MAGLEV_PLUGINS)
      if(NOT IS_ABSOLUTE ${folder} OR NOT IS_DIRECTORY ${folder})
        message(FATAL_ERROR "MAGLEV_PLUGINS: ${folder} is no folder; each is named by its absolute path")
      endif()
      file(GLOB names CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE ${folder}/${room} ${folder}/${room}/*)
      list(FILTER names INCLUDE REGEX "^[A-Za-z][A-Za-z0-9_]*(\\.h|\\.cuh)?$")
      foreach(name IN LISTS names)
        set(mine ${folder}/${room}/${name})
        set(link ${MAGLEV_GENERATED}/${room}/${name})
        foreach(other ${CMAKE_SOURCE_DIR}/${room}/${name} ${CMAKE_SOURCE_DIR}/tests/${room}/${name} ${link})
          if(EXISTS ${other})
            file(REAL_PATH ${other} other)
            message(FATAL_ERROR "MAGLEV_PLUGINS: ${mine} and ${other} have one name; give yours another")
          endif()
        endforeach()
        file(MAKE_DIRECTORY ${MAGLEV_GENERATED}/${room})
        file(CREATE_LINK ${mine} ${link} SYMBOLIC)
      endforeach()
    endforeach()
  endforeach()
endfunction()
maglev_link_plugins()

# every .cpp file below the given folders, at any depth, but tests
function(maglev_sources out)
  maglev_places(places ${ARGN})
  list(TRANSFORM places APPEND "/*.cpp")
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${places})
  list(FILTER found EXCLUDE REGEX "_test\\.cpp$")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# the tests that lie beside the code of the given folders, but of environments that are left out
function(maglev_test_sources out)
  maglev_places(places ${ARGN})
  list(TRANSFORM places APPEND "/*_test.cpp")
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${places})
  get_property(left_out GLOBAL PROPERTY MAGLEV_LEFT_OUT_ENVIRONMENTS)
  foreach(name IN LISTS left_out)
    list(FILTER found EXCLUDE REGEX "/envs/${name}/")
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# a kernel's files by their names: *_cpu.cpp is layer 2, without torch; *_op.cpp is layer 3
function(maglev_kernel_sources cpu_out op_out)
  maglev_sources(found kernels)
  set(cpu ${found})
  list(FILTER cpu INCLUDE REGEX "_cpu\\.cpp$")
  set(op ${found})
  list(FILTER op INCLUDE REGEX "_op\\.cpp$")
  list(FILTER found EXCLUDE REGEX "_(cpu|op)\\.cpp$")
  if(found)
    message(FATAL_ERROR "a kernel's source must be called *_cpu.cpp (no torch), *_op.cpp (torch) or *_test.cpp: ${found}")
  endif()
  set(${cpu_out} "${cpu}" PARENT_SCOPE)
  set(${op_out} "${op}" PARENT_SCOPE)
endfunction()

# names of the folders of `dir` that hold at least one file matching `pattern`
function(maglev_folders dir pattern out)
  maglev_places(places ${dir})
  list(TRANSFORM places APPEND /*/${pattern})
  file(GLOB files CONFIGURE_DEPENDS LIST_DIRECTORIES false ${places})
  set(names)
  foreach(file IN LISTS files)
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    list(APPEND names ${name})
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# writes `content` only when it differs, so that an unchanged table compiles nothing
function(maglev_write path content)
  file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
endfunction()

# writes `function`(), which returns the rows of `row_type` in the given order, into `target`
function(maglev_write_table target file row_type function header declarations rows)
  string(REGEX MATCHALL "::entry[^\n]*,\n" entries "${rows}")
  list(LENGTH entries count)
  set(path ${MAGLEV_GENERATED}/${file}.cpp)
  maglev_write(${path} "// Written by CMake from a list of folders.
#include <array>

#include \"${header}\"

namespace maglev {
${declarations}
std::span<const ${row_type}> ${function}() {
  static const std::array<${row_type}, ${count}> table{
${rows}  };
  return table;
}

}  // namespace maglev
")
  target_sources(${target} PRIVATE ${path})
  set_source_files_properties(${path} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# every folder x of `dir` defines `row_type maglev::<last part of dir>::x::entry()`; `function` returns them all in name
# order
function(maglev_table target table row_type function header dir)
  maglev_folders(${dir} "*.cpp" names)
  get_filename_component(dir ${dir} NAME)
  set(declarations)
  set(rows)
  foreach(name IN LISTS names)
    string(APPEND declarations "namespace ${dir}::${name} { ${row_type} entry(); }\n")
    string(APPEND rows "      ${dir}::${name}::entry(),\n")
  endforeach()
  maglev_write_table(${target} ${table}_table ${row_type} ${function} ${header} "${declarations}" "${rows}")
endfunction()

# kernel_table(): every folder of kernels/ with an operation, and whether its CUDA twin is in this build
function(maglev_kernel_table target)
  maglev_folders(kernels "*.cpp" names)
  set(declarations "// What `row` says, of a build with its CUDA twin or without.
static KernelEntry built(KernelEntry row, bool cuda) {
  row.cuda = cuda;
  return row;
}
")
  set(rows)
  foreach(name IN LISTS names)
    maglev_places(places kernels/${name})
    list(TRANSFORM places APPEND /*.cu)
    file(GLOB twins CONFIGURE_DEPENDS ${places})
    set(cuda false)
    if(MAGLEV_DEVICE_CODE AND twins)
      set(cuda true)
    endif()
    string(APPEND declarations "namespace kernels::${name} { KernelEntry entry(); }\n")
    string(APPEND rows "      built(kernels::${name}::entry(), ${cuda}),\n")
  endforeach()
  maglev_write_table(${target} kernel_table KernelEntry kernel_table engine/device/kernel.h "${declarations}" "${rows}")
endfunction()

# the environments of `dir` that this build has: those whose libraries were found
function(maglev_environment_names dir out)
  maglev_folders(${dir} "*.h" names)
  get_property(left_out GLOBAL PROPERTY MAGLEV_LEFT_OUT_ENVIRONMENTS)
  list(REMOVE_ITEM names "" ${left_out})
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# the environments of several folders, each once, sorted
function(maglev_environments_of out)
  set(all)
  foreach(dir IN LISTS ARGN)
    maglev_environment_names(${dir} names)
    list(APPEND all ${names})
  endforeach()
  list(REMOVE_DUPLICATES all)
  list(SORT all)
  set(${out} "${all}" PARENT_SCOPE)
endfunction()

# links what an environment's libraries.cmake asks for. That file may call find_package or find_library, and sets
# `libraries` to link, or `missing` to the name of what was not found: then the environment is left out, and who asks for
# it is told so, with what `install` says to do.
function(maglev_environment_libraries target dir name)
  maglev_place(folder ${dir}/${name})
  set(file ${folder}/libraries.cmake)
  if(NOT EXISTS ${file})
    return()
  endif()
  set(libraries)
  set(missing)
  set(install "install it, then build again")
  include(${file})
  if(missing)
    message(STATUS "environment ${name} is left out: ${missing} was not found")
    set_property(GLOBAL APPEND PROPERTY MAGLEV_LEFT_OUT_ENVIRONMENTS ${name})
    set_property(GLOBAL APPEND_STRING PROPERTY MAGLEV_LEFT_OUT_ROWS
                 "      LeftOutEnv{\"${name}\", \"${missing}\", \"${install}\"},\n")
  else()
    target_link_libraries(${target} PUBLIC ${libraries})
  endif()
endfunction()

# one translation unit per environment folder of `dir`, the sources that lie in it, and its CUDA twin where device code is
# built and the environment does not say kHostOnly. A name that an earlier call built, such as an example copied into
# envs/, is taken from there.
function(maglev_environments target dir)
  maglev_folders(${dir} "*.h" names)
  get_property(built GLOBAL PROPERTY MAGLEV_BUILT_ENVIRONMENTS)
  list(REMOVE_ITEM names "" ${built})
  set_property(GLOBAL APPEND PROPERTY MAGLEV_BUILT_ENVIRONMENTS ${names})
  foreach(name IN LISTS names)
    maglev_environment_libraries(${target} ${dir} ${name})
  endforeach()
  get_property(left_out GLOBAL PROPERTY MAGLEV_LEFT_OUT_ENVIRONMENTS)
  list(REMOVE_ITEM names "" ${left_out})
  list(JOIN names ", " listed)
  maglev_write(${MAGLEV_GENERATED}/${target}_environments.cpp "// Written by CMake: ${target} holds the environments ${listed} of ${dir}/.\n")
  target_sources(${target} PRIVATE ${MAGLEV_GENERATED}/${target}_environments.cpp)
  foreach(name IN LISTS names)
    string(REPLACE "_" ";" words ${name})
    set(type)
    foreach(word IN LISTS words)
      string(SUBSTRING ${word} 0 1 head)
      string(SUBSTRING ${word} 1 -1 tail)
      string(TOUPPER ${head} head)
      string(APPEND type ${head}${tail})
    endforeach()
    maglev_sources(sources ${dir}/${name})
    target_sources(${target} PRIVATE ${sources})
    maglev_place(folder ${dir}/${name})
    set(header ${folder}/${name}.h)
    # a message of the compiler names a file where it lies
    string(REPLACE ${CMAKE_SOURCE_DIR}/ "" included ${header})
    file(STRINGS ${header} host_only REGEX "bool kHostOnly = true;" LIMIT_COUNT 1)
    if(host_only)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    endif()
    if(MAGLEV_DEVICE_CODE AND NOT host_only)
      set(cuda_declaration "int reset_cuda(const EnvBatch&, const StepIo&, int64_t, void*);\nint step_cuda(const EnvBatch&, const StepIo&, int64_t, void*);\n")
      set(cuda_rows "  row.reset_cuda = reset_cuda;\n  row.step_cuda = step_cuda;\n")
    else()
      set(cuda_declaration)
      set(cuda_rows)
    endif()
    set(file ${MAGLEV_GENERATED}/env_${name}.cpp)
    maglev_write(${file} "// Written by CMake from ${dir}/${name}/. The environment is struct maglev::${type}.
#include \"${included}\"
#include \"base/env/batch_cpu.h\"

namespace maglev::envs::${name} {
${cuda_declaration}
EnvEntry entry() {
  EnvEntry row = make_env_entry<${type}>(\"${name}\");
${cuda_rows}  return row;
}

}  // namespace maglev::envs::${name}
")
    target_sources(${target} PRIVATE ${file})
    if(host_only)
      continue()
    endif()
    set_property(GLOBAL APPEND PROPERTY MAGLEV_DEVICE_ENVIRONMENTS ${name})
    set(cuda_file ${MAGLEV_GENERATED}/env_${name}.cu)
    maglev_write(${cuda_file} "// Written by CMake from ${dir}/${name}/.
#include \"${included}\"
#include \"base/env/batch_cuda.cuh\"

namespace maglev::envs::${name} {

int reset_cuda(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream) {
  return launch_reset<${type}>(batch, io, count, stream);
}

int step_cuda(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream) {
  return launch_step<${type}>(batch, io, count, stream);
}

}  // namespace maglev::envs::${name}
")
    maglev_cuda_source(${target} ${cuda_file})
  endforeach()
endfunction()

# left_out_envs(), for one program
function(maglev_left_out_table target)
  get_property(left_out GLOBAL PROPERTY MAGLEV_LEFT_OUT_ENVIRONMENTS)
  list(LENGTH left_out count)
  get_property(rows GLOBAL PROPERTY MAGLEV_LEFT_OUT_ROWS)
  set(path ${MAGLEV_GENERATED}/${target}_left_out_envs.cpp)
  maglev_write(${path} "// Written by CMake: environments whose libraries were not found.
#include <array>

#include \"base/env/entry.h\"

namespace maglev {

std::span<const LeftOutEnv> left_out_envs() {
  static constexpr std::array<LeftOutEnv, ${count}> table{
${rows}  };
  return table;
}

}  // namespace maglev
")
  target_sources(${target} PRIVATE ${path})
  set_source_files_properties(${path} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# env_table() over the environments of `dirs`, for one program
function(maglev_env_table target)
  set(declarations)
  set(rows)
  maglev_environments_of(all ${ARGN})
  foreach(name IN LISTS all)
    string(APPEND declarations "namespace envs::${name} { EnvEntry entry(); }\n")
    string(APPEND rows "      envs::${name}::entry(),\n")
  endforeach()
  maglev_write_table(${target} ${target}_env_table EnvEntry env_table base/env/entry.h "${declarations}" "${rows}")
  maglev_left_out_table(${target})
endfunction()

# the `kind` (algorithms, networks) of `dir`: every source of each folder. A name that an earlier call built, such as an
# example copied into algos/, is taken from there.
function(maglev_plugins target kind dir)
  maglev_folders(${dir} "*.cpp" names)
  get_property(built GLOBAL PROPERTY MAGLEV_BUILT_${kind})
  list(REMOVE_ITEM names "" ${built})
  set_property(GLOBAL APPEND PROPERTY MAGLEV_BUILT_${kind} ${names})
  list(JOIN names ", " listed)
  set(file ${MAGLEV_GENERATED}/${target}_${kind}.cpp)
  maglev_write(${file} "// Written by CMake: ${target} holds the ${kind} ${listed} of ${dir}/.\n")
  target_sources(${target} PRIVATE ${file})
  set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  foreach(name IN LISTS names)
    maglev_sources(sources ${dir}/${name})
    target_sources(${target} PRIVATE ${sources})
  endforeach()
endfunction()

# `function`() over the folders of `dirs`, for one program: each defines `entry_type maglev::<space>::x::entry()`. A row
# is what that returns (`call` is "()"), or the function
function(maglev_plugin_table target space entry_type row_type call function header)
  set(names)
  foreach(dir IN LISTS ARGN)
    maglev_folders(${dir} "*.cpp" found)
    list(APPEND names ${found})
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  set(declarations)
  set(rows)
  foreach(name IN LISTS names)
    string(APPEND declarations "namespace ${space}::${name} { ${entry_type} entry(); }\n")
    string(APPEND rows "      ${space}::${name}::entry${call},\n")
  endforeach()
  maglev_write_table(${target} ${target}_${function} ${row_type} ${function} ${header} "${declarations}" "${rows}")
endfunction()

# algo_makers(), of which algo_table() is made, and network_table() of one program
function(maglev_algo_table target)
  maglev_plugin_table(${target} algos AlgoEntry MakeAlgoEntry "" algo_makers engine/algo/entries.h ${ARGN})
endfunction()
function(maglev_network_table target)
  maglev_plugin_table(${target} networks NetworkEntry NetworkEntry "()" network_table engine/nn/network_entry.h ${ARGN})
endfunction()

# the program with the plug-ins of the given folders: maglev_program(x ENVS envs ALGOS algos NETWORKS networks)
function(maglev_program name)
  cmake_parse_arguments(arg "" "" "ENVS;ALGOS;NETWORKS" ${ARGN})
  add_executable(${name} ${CMAKE_SOURCE_DIR}/verbs/main.cpp)
  maglev_env_table(${name} ${arg_ENVS})
  maglev_algo_table(${name} ${arg_ALGOS})
  maglev_network_table(${name} ${arg_NETWORKS})
  target_link_libraries(${name} PRIVATE maglev_verbs)
endfunction()
