#include <nanobind/nanobind.h>

void bind_program(nanobind::module_ module) { (void)module; }
