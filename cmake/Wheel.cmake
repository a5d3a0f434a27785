# Where a program and a module look for shared libraries once they are installed from a wheel (launcher/wheel.py), told from
# where they lie themselves: site-packages/maglev_engine and site-packages/maglev, beside torch. It comes behind the
# folders of this machine, so that a wheel's copy can begin with it.
include_guard()

set(maglev_wheel_places maglev_engine/lib torch/lib mujoco)
if(MAGLEV_DEVICE_CODE)
  # the runtime of the packages that torch's CUDA builds bring
  file(GLOB runtimes ${MAGLEV_TORCH}/../nvidia/*/lib/libcudart.so.*)
  foreach(runtime IN LISTS runtimes)
    get_filename_component(folder ${runtime} DIRECTORY)
    file(RELATIVE_PATH folder ${MAGLEV_TORCH}/.. ${folder})
    list(APPEND maglev_wheel_places ${folder})
  endforeach()
endif()
list(TRANSFORM maglev_wheel_places PREPEND $$ORIGIN/../)
list(JOIN maglev_wheel_places ":" maglev_wheel_places)

function(maglev_for_wheels target)
  # among libraries, not options, which stand before the others' folders; the dollars are make's and Ninja's
  target_link_libraries(${target} PRIVATE "-Wl,-rpath,'${maglev_wheel_places}'")
endfunction()
