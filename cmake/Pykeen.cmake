# Knowledge graphs from the Python package pykeen: files that a program reads when one is asked for.
include_guard()

set(MAGLEV_PYKEEN "" CACHE PATH "Folder of the Python package pykeen; empty: ask python3")

# beside torch where that was looked for, else the interpreter's own
if(NOT MAGLEV_PYKEEN)
  find_program(MAGLEV_PYTHON NAMES python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
  find_program(MAGLEV_PYTHON NAMES python3)
  execute_process(
    COMMAND ${MAGLEV_PYTHON} -c "import importlib.util as u; print(list(u.find_spec('pykeen').submodule_search_locations)[0])"
    OUTPUT_VARIABLE pykeen_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
  set(pykeen_folder ${MAGLEV_PYKEEN})
endif()
set_source_files_properties(base/datalog/pykeen.cpp PROPERTIES COMPILE_DEFINITIONS
  "MAGLEV_PYKEEN=\"${pykeen_folder}\"")
