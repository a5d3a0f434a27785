# Small libraries from the system, torch from its Python package.
include_guard()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(MAGLEV_XXHASH xxhash.h REQUIRED)
add_library(maglev_dependencies INTERFACE)
target_include_directories(maglev_dependencies SYSTEM INTERFACE ${MAGLEV_XXHASH})
target_link_libraries(maglev_dependencies INTERFACE Threads::Threads yaml-cpp nlohmann_json::nlohmann_json)

if(MAGLEV_TRAIN)
  if(NOT MAGLEV_TORCH)
    find_program(MAGLEV_PYTHON NAMES python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
    find_program(MAGLEV_PYTHON NAMES python3)
    execute_process(
      COMMAND ${MAGLEV_PYTHON} -c "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
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
  if(torch_cuda_library)
    set(MAGLEV_TORCH_CUDA ON)
    target_link_libraries(maglev_torch INTERFACE -Wl,--no-as-needed torch torch_cpu torch_cuda c10 c10_cuda -Wl,--as-needed)
  else()
    set(MAGLEV_TORCH_CUDA OFF)
    target_link_libraries(maglev_torch INTERFACE torch torch_cpu c10)
  endif()
endif()
