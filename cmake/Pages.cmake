# Pages are compiled into the program: what a browser is given needs no folder beside it and no other machine.
include_guard()

set(MAGLEV_TYPE_html "text/html; charset=utf-8")
set(MAGLEV_TYPE_css "text/css; charset=utf-8")
set(MAGLEV_TYPE_js "text/javascript; charset=utf-8")
set(MAGLEV_TYPE_svg "image/svg+xml")

# defines `function`(), the files that lie in the given folders, each under "/" and its name; index.html is "/". They are
# texts. Declared in `header`.
function(maglev_pages target namespace function header)
  set(rows)
  set(count 0)
  foreach(folder IN LISTS ARGN)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.html ${CMAKE_SOURCE_DIR}/${folder}/*.css
         ${CMAKE_SOURCE_DIR}/${folder}/*.js ${CMAKE_SOURCE_DIR}/${folder}/*.svg)
    foreach(file IN LISTS files)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      get_filename_component(name ${file} NAME)
      get_filename_component(ending ${file} LAST_EXT)
      string(SUBSTRING ${ending} 1 -1 ending)
      if(name STREQUAL "index.html")
        set(name "")
      endif()
      file(READ ${file} text)
      string(APPEND rows "      WebFile{\"/${name}\", \"${MAGLEV_TYPE_${ending}}\", R\"maglev-page(${text})maglev-page\"},\n")
      math(EXPR count "${count} + 1")
    endforeach()
  endforeach()
  set(path ${MAGLEV_GENERATED}/${function}.cpp)
  set(content "// Written by CMake from ${ARGN}.
#include <array>

#include \"${header}\"

namespace ${namespace} {

std::span<const WebFile> ${function}() {
  static constexpr std::array<WebFile, ${count}> files{
${rows}  };
  return files;
}

}  // namespace ${namespace}
")
  set(before)
  if(EXISTS ${path})
    file(READ ${path} before)
  endif()
  if(NOT before STREQUAL content)
    file(WRITE ${path} "${content}")
  endif()
  target_sources(${target} PRIVATE ${path})
  set_source_files_properties(${path} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
