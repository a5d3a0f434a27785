# Run by each build: writes OUT, which defines kEngineCommit, when the checkout SOURCES has another commit, or what a build
# reads begins or ceases to differ from it. Empty without git and outside a checkout.
execute_process(COMMAND git -C ${SOURCES} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "")
else()
  # a plug-in that git does not know yet is built as well. The index is left to who commits meanwhile
  execute_process(COMMAND git --no-optional-locks -C ${SOURCES} status --porcelain --untracked-files=all --
                          *.cpp *.h *.cu *.cuh *.in *.html *.css *.js *.cmake *CMakeLists.txt
                          :!tests :!bench :!*_test.cpp
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "+changes")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Written by cmake/Commit.cmake.
#include \"base/core/version.h\"

namespace maglev {

const char* const kEngineCommit = \"${commit}\";

}  // namespace maglev
" @ONLY)
