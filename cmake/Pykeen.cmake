# Knowledge graphs from the Python package pykeen: files that a program reads when one is asked for.
include_guard()

set(MAGLEV_PYKEEN "" CACHE PATH "Folder of the Python package pykeen; empty: ask python3")

if(NOT MAGLEV_PYKEEN)
  maglev_python_package(pykeen_folder pykeen)
else()
  set(pykeen_folder ${MAGLEV_PYKEEN})
endif()
set_source_files_properties(base/datalog/pykeen.cpp PROPERTIES COMPILE_DEFINITIONS
  "MAGLEV_PYKEEN=\"${pykeen_folder}\"")
