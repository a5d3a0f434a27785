# the Python that steps environments: the one that has gymnasium, beside torch where that was looked for
set(MAGLEV_GYMNASIUM "" CACHE PATH "Folder of the Python package gymnasium; empty: ask python3")
find_program(MAGLEV_PYTHON NAMES python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
find_program(MAGLEV_PYTHON NAMES python3)
set(gymnasium_folder ${MAGLEV_GYMNASIUM})
if(NOT gymnasium_folder)
  execute_process(
    COMMAND ${MAGLEV_PYTHON} -c "import importlib.util as u; print(list(u.find_spec('gymnasium').submodule_search_locations)[0])"
    OUTPUT_VARIABLE gymnasium_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(gymnasium_folder)
  get_filename_component(gymnasium_beside ${gymnasium_folder} DIRECTORY)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/envs/gymnasium/workers.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
    COMPILE_DEFINITIONS "MAGLEV_PYTHON=\"${MAGLEV_PYTHON}\";MAGLEV_GYMNASIUM_BESIDE=\"${gymnasium_beside}\";MAGLEV_GYMNASIUM_WORKER=\"${CMAKE_SOURCE_DIR}/envs/gymnasium/worker.py\"")
else()
  set(missing "Python's gymnasium")
  set(install "./maglev setup fetches it (or: pip install gymnasium==1.4.0), then build again")
endif()
