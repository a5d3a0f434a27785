# MuJoCo from its Python package: headers to compile with, a library that the program opens when an environment wants it.
include_guard()

set(MAGLEV_MUJOCO_VERSION 3.17.0)
set(MAGLEV_MUJOCO "" CACHE PATH "Folder of the Python package mujoco; empty: ask python3")

if(NOT MAGLEV_MUJOCO)
  maglev_python_package(mujoco_folder mujoco)
else()
  set(mujoco_folder ${MAGLEV_MUJOCO})
endif()

if(EXISTS ${mujoco_folder}/libmujoco.so.${MAGLEV_MUJOCO_VERSION})
  maglev_sources(mujoco_sources base/mujoco)
  add_library(maglev_mujoco STATIC ${mujoco_sources})
  target_include_directories(maglev_mujoco SYSTEM PUBLIC ${mujoco_folder}/include)
  target_link_libraries(maglev_mujoco PUBLIC maglev_base PRIVATE ${CMAKE_DL_LIBS})
  # where a program looks for the library when it opens it
  target_link_options(maglev_mujoco INTERFACE -Wl,-rpath,${mujoco_folder})
endif()

# for an environment's libraries.cmake
macro(maglev_needs_mujoco)
  if(TARGET maglev_mujoco)
    set(libraries maglev_mujoco)
  else()
    set(missing "MuJoCo ${MAGLEV_MUJOCO_VERSION}")
    set(install "./maglev setup fetches it (or: pip install mujoco==${MAGLEV_MUJOCO_VERSION} dm_control==1.0.50), then build again")
  endif()
endmacro()
