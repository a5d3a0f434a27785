# What Python is given, and the module maglev._engine of it for the Python that has the torch it is built with. Without that
# Python's headers the module is left out, and who asks for it is told so.
include_guard()

maglev_sources(python_sources python)
list(FILTER python_sources EXCLUDE REGEX "/module\\.cpp$")
add_library(maglev_bindings STATIC ${python_sources})
target_link_libraries(maglev_bindings PUBLIC maglev_verbs)
target_precompile_headers(maglev_bindings REUSE_FROM maglev_train)
maglev_unity(maglev_bindings ${python_sources})

maglev_ask_python(found "import sysconfig as s; print(s.get_paths()['include'], s.get_config_var('EXT_SUFFIX'), sep=';')")
list(LENGTH found count)
set(python_include)
if(count EQUAL 2)
  list(GET found 0 python_include)
  list(GET found 1 python_suffix)
endif()
if(CMAKE_CROSSCOMPILING)
  message(STATUS "the Python module is left out: this machine's Python is not the other one's")
  return()
endif()
if(NOT EXISTS ${python_include}/Python.h OR NOT EXISTS ${MAGLEV_TORCH}/lib/libtorch_python.so)
  message(STATUS "the Python module is left out: ${python_include}/Python.h was not found (python3-dev)")
  return()
endif()

add_library(maglev_python MODULE python/bindings/module.cpp)
maglev_env_table(maglev_python envs)
maglev_algo_table(maglev_python algos)
maglev_network_table(maglev_python networks)
target_link_libraries(maglev_python PRIVATE maglev_bindings torch_python)
maglev_for_wheels(maglev_python)
target_include_directories(maglev_python SYSTEM PRIVATE ${python_include})
set_target_properties(maglev_python PROPERTIES
  CXX_VISIBILITY_PRESET hidden
  PREFIX "" OUTPUT_NAME _engine SUFFIX ${python_suffix}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
