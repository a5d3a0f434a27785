# Run by each build: writes OUT, which defines kEngineCommit and plugin_folders(), when the checkout SOURCES or a folder
# of PLUGINS has another commit, or what a build reads begins or ceases to differ from it. A commit is empty without git
# and outside a checkout.
function(maglev_commit_of out folder)
  execute_process(COMMAND git -C ${folder} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(commit "")
  else()
    # a plug-in that git does not know yet is built as well. The index is left to who commits meanwhile
    execute_process(COMMAND git --no-optional-locks -C ${folder} status --porcelain --untracked-files=all --
                            *.cpp *.h *.cu *.cuh *.in *.html *.css *.js *.cmake *CMakeLists.txt
                            :!tests :!bench :!*_test.cpp
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND commit "+changes")
    endif()
  endif()
  set(${out} "${commit}" PARENT_SCOPE)
endfunction()

maglev_commit_of(commit ${SOURCES})
list(LENGTH PLUGINS count)
set(rows)
foreach(folder IN LISTS PLUGINS)
  maglev_commit_of(theirs ${folder})
  string(APPEND rows "      PluginFolder{R\"(${folder})\", \"${theirs}\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Written by cmake/Commit.cmake.
#include <array>

#include \"base/core/version.h\"

namespace maglev {

const char* const kEngineCommit = \"${commit}\";

std::span<const PluginFolder> plugin_folders() {
  static constexpr std::array<PluginFolder, ${count}> folders{
${rows}  };
  return folders;
}

}  // namespace maglev
" @ONLY)
