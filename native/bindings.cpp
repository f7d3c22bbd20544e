// The one door between Python and the native core: each part registers a submodule of its own.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_text(nb::module_ module);
void bind_sampling(nb::module_ module);
void bind_ngrams(nb::module_ module);
void bind_kernels(nb::module_ module);
void bind_quantize(nb::module_ module);
void bind_program(nb::module_ module);

namespace {

// What outlives the interpreter is told of in Python's development mode (python -X dev) alone: a
// daemon thread that a process leaves in the middle of a call keeps all that it uses, and nobody can
// help it.
void set_leak_warnings() {
  nb::set_leak_warnings(nb::cast<bool>(nb::module_::import_("sys").attr("flags").attr("dev_mode")));
}

}  // namespace

NB_MODULE(_native, module) {
  set_leak_warnings();
  bind_text(module.def_submodule("text"));
  nb::module_ sampling = module.def_submodule("sampling");
  bind_sampling(sampling);
  bind_ngrams(sampling);
  bind_kernels(module.def_submodule("kernels"));
  bind_quantize(module.def_submodule("quantize"));
  bind_program(module.def_submodule("program"));
}
