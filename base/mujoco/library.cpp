#include "base/mujoco/library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

#include "base/core/error.h"
#include "base/core/home.h"

namespace maglev::mujoco {
namespace {

// "3.17.0", of a number such as 3017000
std::string version_text(int version) {
  return std::to_string(version / 1000000) + "." + std::to_string(version / 1000 % 1000) + "." +
         std::to_string(version % 1000);
}

std::string how_to_install() {
  return "; " + how_to_get("mujoco") +
         ", or set MAGLEV_MUJOCO to the folder of the Python package mujoco " +
         version_text(mjVERSION_HEADER);
}

// called by the library, whose frames have what unwinding needs
void throw_error(const char* message) { throw Error("[mujoco] " + std::string(message)); }

// warnings are counted in mjData; by default they would also go to a file in the working folder
void ignore_warning(const char*) {}

class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <class Symbol>
  void find(Symbol& symbol, const char* name) const {
    symbol = reinterpret_cast<Symbol>(dlsym(handle_, name));
    if (!symbol) throw Error("[mujoco] the library has no " + std::string(name) + how_to_install());
  }

 private:
  void* handle_;
};

Library opened() {
  // by its bare name it is looked for where the program was linked to look, as torch is
  std::string path = "libmujoco.so." + version_text(mjVERSION_HEADER);
  const char* chosen = std::getenv("MAGLEV_MUJOCO");
  if (chosen && *chosen) path = std::string(chosen) + "/" + path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error("[mujoco] MuJoCo cannot be loaded: " + std::string(dlerror()) + how_to_install());
  const Symbols symbols(handle);
  Library lib;
  symbols.find(lib.version, "mj_version");
  if (const int version = lib.version(); version != mjVERSION_HEADER)
    throw Error("[mujoco] " + path + " is MuJoCo " + version_text(version) +
                ", and this program was built for " + version_text(mjVERSION_HEADER) +
                how_to_install());
  symbols.find(lib.load_xml, "mj_loadXML");
  symbols.find(lib.delete_model, "mj_deleteModel");
  symbols.find(lib.size_model, "mj_sizeModel");
  symbols.find(lib.save_model, "mj_saveModel");
  symbols.find(lib.name_to_id, "mj_name2id");
  symbols.find(lib.make_data, "mj_makeData");
  symbols.find(lib.delete_data, "mj_deleteData");
  symbols.find(lib.state_size, "mj_stateSize");
  symbols.find(lib.get_state, "mj_getState");
  symbols.find(lib.set_state, "mj_setState");
  symbols.find(lib.reset_data, "mj_resetData");
  symbols.find(lib.forward, "mj_forward");
  symbols.find(lib.step, "mj_step");
  symbols.find(lib.step1, "mj_step1");
  symbols.find(lib.step2, "mj_step2");
  symbols.find(lib.default_option, "mjv_defaultOption");
  symbols.find(lib.default_scene, "mjv_defaultScene");
  symbols.find(lib.make_scene, "mjv_makeScene");
  symbols.find(lib.free_scene, "mjv_freeScene");
  symbols.find(lib.update_scene, "mjv_updateScene");
  symbols.find(lib.default_context, "mjr_defaultContext");
  symbols.find(lib.make_context, "mjr_makeContext");
  symbols.find(lib.free_context, "mjr_freeContext");
  symbols.find(lib.set_buffer, "mjr_setBuffer");
  symbols.find(lib.render, "mjr_render");
  symbols.find(lib.read_pixels, "mjr_readPixels");

  void (**user_error)(const char*);
  void (**user_warning)(const char*);
  symbols.find(user_error, "mju_user_error");
  symbols.find(user_warning, "mju_user_warning");
  *user_error = throw_error;
  *user_warning = ignore_warning;

  Dl_info where;
  MAGLEV_ASSERT(dladdr(reinterpret_cast<void*>(lib.version), &where),
                "a loaded function has a file");
  lib.folder = std::filesystem::absolute(where.dli_fname).parent_path();
  return lib;
}

}  // namespace

const Library& library() {
  static const Library lib = opened();
  return lib;
}

}  // namespace maglev::mujoco
