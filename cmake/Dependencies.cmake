# Small libraries from the system, torch from its Python package.
include_guard()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_path(MAGLEV_HIGHWAY hwy/highway.h REQUIRED)
find_library(MAGLEV_HIGHWAY_LIBRARY hwy REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(MAGLEV_XXHASH xxhash.h REQUIRED)
find_package(ZLIB REQUIRED)
add_library(maglev_dependencies INTERFACE)
target_include_directories(maglev_dependencies SYSTEM INTERFACE ${MAGLEV_XXHASH} ${MAGLEV_HIGHWAY})
target_link_libraries(maglev_dependencies INTERFACE Threads::Threads ${MAGLEV_HIGHWAY_LIBRARY} ZLIB::ZLIB yaml-cpp nlohmann_json::nlohmann_json)

# what the Python beside torch prints of this code, else the interpreter's own; empty where it fails
function(maglev_ask_python out code)
  find_program(MAGLEV_PYTHON NAMES python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
  find_program(MAGLEV_PYTHON NAMES python3)
  execute_process(COMMAND ${MAGLEV_PYTHON} -c "${code}"
    OUTPUT_VARIABLE printed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${printed}" PARENT_SCOPE)
endfunction()

# the folder of a Python package; empty where it is not installed, and for another kind of machine than this one, whose
# Python has nothing for it
function(maglev_python_package out package)
  if(CMAKE_CROSSCOMPILING)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  maglev_ask_python(folder "import importlib.util as u; print(list(u.find_spec('${package}').submodule_search_locations)[0])")
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

if(MAGLEV_TRAIN)
  if(NOT MAGLEV_TORCH)
    maglev_python_package(found torch)
    if(NOT found)
      message(FATAL_ERROR "torch was not found for ${MAGLEV_PYTHON}: run ./maglev once, or pass -DMAGLEV_TORCH=<site-packages>/torch")
    endif()
    set(MAGLEV_TORCH ${found} CACHE PATH "" FORCE)
  endif()
  # torch's own CMake package pulls in a CUDA toolkit search and protobuf; the libraries alone are enough
  file(GLOB torch_cuda_library ${MAGLEV_TORCH}/lib/libtorch_cuda.so)
  add_library(maglev_torch INTERFACE)
  target_include_directories(maglev_torch SYSTEM INTERFACE
    ${MAGLEV_TORCH}/include ${MAGLEV_TORCH}/include/torch/csrc/api/include)
  target_link_directories(maglev_torch INTERFACE ${MAGLEV_TORCH}/lib)
  target_link_options(maglev_torch INTERFACE -Wl,-rpath,${MAGLEV_TORCH}/lib)
  # the C++ library before torch, which has parts of another one in it (std::filesystem in CUDA builds) that are only whole
  # within torch: what is looked up is found in the first library that has it
  target_link_libraries(maglev_torch INTERFACE
    -Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state)
  if(torch_cuda_library)
    set(MAGLEV_TORCH_CUDA ON)
    target_link_libraries(maglev_torch INTERFACE -Wl,--no-as-needed torch torch_cpu torch_cuda c10 c10_cuda -Wl,--as-needed)
  else()
    set(MAGLEV_TORCH_CUDA OFF)
    target_link_libraries(maglev_torch INTERFACE torch torch_cpu c10)
  endif()
endif()
