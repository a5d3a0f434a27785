#pragma once
// MuJoCo's library, opened at its first use: a program starts without it, and one that never steps
// a simulator never needs it. Its headers come from the same Python package, which says where the
// library lies; see docs/mujoco.md.

#include <string>

#include <mujoco/mujoco.h>

namespace maglev::mujoco {

/// The functions that are used, by their names without the prefix of their header.
struct Library {
  decltype(&mj_version) version;
  // models and their states
  decltype(&mj_loadXML) load_xml;
  decltype(&mj_deleteModel) delete_model;
  decltype(&mj_sizeModel) size_model;
  decltype(&mj_saveModel) save_model;
  decltype(&mj_name2id) name_to_id;
  decltype(&mj_makeData) make_data;
  decltype(&mj_deleteData) delete_data;
  decltype(&mj_stateSize) state_size;
  decltype(&mj_getState) get_state;
  decltype(&mj_setState) set_state;
  // physics
  decltype(&mj_resetData) reset_data;
  decltype(&mj_forward) forward;
  decltype(&mj_step) step;
  decltype(&mj_step1) step1;
  decltype(&mj_step2) step2;
  // pictures
  decltype(&mjv_defaultOption) default_option;
  decltype(&mjv_defaultScene) default_scene;
  decltype(&mjv_makeScene) make_scene;
  decltype(&mjv_freeScene) free_scene;
  decltype(&mjv_updateScene) update_scene;
  decltype(&mjr_defaultContext) default_context;
  decltype(&mjr_makeContext) make_context;
  decltype(&mjr_freeContext) free_context;
  decltype(&mjr_setBuffer) set_buffer;
  decltype(&mjr_render) render;
  decltype(&mjr_readPixels) read_pixels;

  /// The folder the library was loaded from: the Python package `mujoco`.
  std::string folder;
};

/// The library of the folder MAGLEV_MUJOCO where that is set, else of the package the build found.
/// What it reports as an error is thrown as Error; its warnings are the caller's to look for in
/// mjData. Throws Error when it cannot be loaded or is of another version than the headers.
const Library& library();

}  // namespace maglev::mujoco
