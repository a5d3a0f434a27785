# Sources of one room are compiled a few at a time, as one: headers and what they instantiate are paid for once a group.
# What a file keeps to itself in an anonymous namespace is therefore seen by its neighbours: its names are its own in the
# room. Each file includes what it uses, and MAGLEV_UNITY=OFF compiles each alone.
include_guard()

option(MAGLEV_UNITY "Compile the sources of a room in groups" ON)

# the most sources of a group: more save little and keep a processor busy when the others are done
set(MAGLEV_UNITY_MOST 9)

# the room a source lies in: a folder of engine/, algos/ or base/, else the folder at the top
function(maglev_room source out)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
  string(REGEX MATCH "^((engine|algos|base)/)?[^/]+" room ${path})
  string(REPLACE "/" "_" room ${room})
  set(${out} ${room} PARENT_SCOPE)
endfunction()

# groups the given sources of `target`: those of a room in even shares. Sources with flags of their own stay alone, and so
# do those of MAGLEV_PLUGINS, whose names are theirs.
function(maglev_unity target)
  if(NOT MAGLEV_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(rooms)
  foreach(source IN LISTS ARGN)
    maglev_room(${source} room)
    if(room STREQUAL "..")
      continue()
    endif()
    list(APPEND rooms ${room})
    list(APPEND sources_${room} ${source})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room IN LISTS rooms)
    list(SORT sources_${room})
    list(LENGTH sources_${room} count)
    math(EXPR groups "(${count} + ${MAGLEV_UNITY_MOST} - 1) / ${MAGLEV_UNITY_MOST}")
    set(place 0)
    foreach(source IN LISTS sources_${room})
      math(EXPR group "${place} * ${groups} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${group})
      math(EXPR place "${place} + 1")
    endforeach()
  endforeach()
endfunction()
