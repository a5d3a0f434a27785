# maglev_capabilities(result): compute capabilities that device code is built for, the newest last: those of the GPUs that
# are here, which takes less time than more; where none tells its own, of what most have.
include_guard()

function(maglev_capabilities result)
  set(told "")
  find_program(MAGLEV_NVIDIA_SMI nvidia-smi)
  if(MAGLEV_NVIDIA_SMI)
    execute_process(COMMAND ${MAGLEV_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE told ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed EQUAL 0)
      set(told "")
    endif()
  endif()
  string(REGEX MATCHALL "[0-9]+[.][0-9]" found "${told}")
  string(REPLACE "." "" found "${found}")
  list(REMOVE_DUPLICATES found)
  list(SORT found COMPARE NATURAL)
  if(NOT found)
    set(found 80 90)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
