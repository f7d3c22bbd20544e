#include <nanobind/nanobind.h>

void bind_sampling(nanobind::module_ module) { (void)module; }
