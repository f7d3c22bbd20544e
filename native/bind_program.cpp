// The executor's door: what Python calls by which name.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind_executor.h"
#include "bind_released.h"
#include "program/binding.h"
#include "program/phase_cost.h"
#include "program/populate.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace pyrite;

void bind_program(nb::module_ module) {
  nb::enum_<Rows>(module, "Rows")
      .value("TOKENS", Rows::kTokens)
      .value("OUTPUTS", Rows::kOutputs);
  nb::enum_<Activation>(module, "Activation")
      .value("NONE", Activation::kNone)
      .value("IDENTITY", Activation::kIdentity)
      .value("SILU", Activation::kSilu)
      .value("GELU", Activation::kGelu)
      .value("GELU_TANH", Activation::kGeluTanh)
      .value("RELU", Activation::kRelu)
      .value("RELU_SQUARED", Activation::kReluSquared)
      .value("SIGMOID", Activation::kSigmoid)
      .value("TANH", Activation::kTanh)
      .value("CLAMPED_SWIGLU", Activation::kClampedSwiglu);
  nb::enum_<NormKind>(module, "NormKind")
      .value("RMS", NormKind::kRms)
      .value("LAYER", NormKind::kLayer)
      .value("L2", NormKind::kL2);
  nb::enum_<KvType>(module, "KvType").value("F16", KvType::kF16).value("Q8", KvType::kQ8);
  module.def(
      "interleave_memory",
      [](const std::vector<int>& nodes) {
        for (int node : nodes) require(node >= 0 && node < 4096, "a node's number is out of range");
        return interleave_memory(nodes);
      },
      "nodes"_a);
  module.def(
      "phase_seconds",
      [](int num_threads) {
        require(num_threads >= 1 && num_threads <= 1024, "num_threads is out of range");
        Released released;
        return phase_seconds(num_threads);
      },
      "num_threads"_a);
  module.def(
      "head_block_bytes",
      [](int key_width, int value_width, KvType kv_type) {
        const bool in_keys = value_width == 0;
        const int width = in_keys ? key_width : value_width;
        return head_block_bytes(shape_of(key_width, width, in_keys), kv_type);
      },
      "key_width"_a, "value_width"_a, "kv_type"_a);
  module.def(
      "populate", [](Bytes data) { populate(data.data(), data.shape(0)); }, "data"_a);

  nb::class_<RoutingOf>(module, "Routing")
      .def(
          "__init__",
          [](RoutingOf* self, int num_used, bool by_sigmoid, std::optional<int> bias,
             std::optional<int> expert_scale, bool is_normalized, float eps, float scale, int groups, int used_groups, bool by_two) {
            Routing routing = {0,   num_used, by_sigmoid, nullptr, nullptr, is_normalized,
                               eps, scale,    groups,     used_groups, by_two};
            new (self) RoutingOf{routing, bias, expert_scale};
          },
          nb::kw_only(), "num_used"_a, "by_sigmoid"_a, "bias"_a.none(), "expert_scale"_a.none(),
          "is_normalized"_a, "eps"_a,
          "scale"_a, "groups"_a, "used_groups"_a, "by_two"_a);
  nb::class_<Executor>(module, "Program")
      .def(
          "__init__",
          [](Executor* self, const std::string& isa, int num_threads, int max_tokens,
             int arena_columns, int result_width, int num_pages, size_t page_bytes,
             int num_slots, size_t state_floats, Team::Places places) {
            new (self) Executor(isa, {num_threads, max_tokens, arena_columns, result_width, num_pages,
                                      page_bytes, num_slots, state_floats},
                                std::move(places));
          },
          nb::kw_only(), "isa"_a, "num_threads"_a, "max_tokens"_a, "arena_columns"_a, "result_width"_a,
          "num_pages"_a, "page_bytes"_a, "num_slots"_a = 0, "state_floats"_a = 0,
          "places"_a = Team::Places())
      .def("add_matrix", &Executor::add_matrix, "type"_a, "count"_a, "rows"_a, "columns"_a, "data"_a)
      .def("add_vector", &Executor::add_vector, "data"_a)
      .def("add_rope", &Executor::add_rope, "frequencies"_a, "factor"_a, "pairs"_a,
           "growth"_a, "growth_span"_a)
      .def("add_embed", &Executor::add_embed, "label"_a, nb::kw_only(), "table"_a, "scale"_a, "out"_a)
      .def("add_embed_positions", &Executor::add_embed_positions, "label"_a, nb::kw_only(), "table"_a,
           "out"_a)
      .def("add_norm", &Executor::add_norm, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "norm"_a, "group"_a, "is_wide"_a, "residual"_a.none())
      .def("add_rotate", &Executor::add_rotate, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "head_width"_a, "start"_a, "rope"_a)
      .def("add_concat", &Executor::add_concat, "label"_a, nb::kw_only(), "rows"_a, "left"_a,
           "right"_a, "out"_a)
      .def("add_pick", &Executor::add_pick, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "order"_a)
      .def("add_head_dot", &Executor::add_head_dot, "label"_a, nb::kw_only(), "rows"_a, "left"_a,
           "right"_a, "value"_a, "out"_a, "weight"_a, "head_width"_a)
      .def("add_gate", &Executor::add_gate, "label"_a, nb::kw_only(), "rows"_a, "gate"_a, "up"_a,
           "out"_a, "activation"_a)
      .def("add_add", &Executor::add_add, "label"_a, nb::kw_only(), "rows"_a, "left"_a, "right"_a,
           "out"_a)
      .def("add_activate", &Executor::add_activate, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "out"_a, "activation"_a)
      .def("add_scale", &Executor::add_scale, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "factor"_a)
      .def("add_affine", &Executor::add_affine, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "out"_a, "weight"_a, "bias"_a)
      .def("add_scale_rows", &Executor::add_scale_rows, "label"_a, nb::kw_only(), "rows"_a,
           "input"_a, "factor"_a, "out"_a, "activation"_a)
      .def("add_lerp", &Executor::add_lerp, "label"_a, nb::kw_only(), "rows"_a, "left"_a, "right"_a,
           "out"_a, "weight"_a)
      .def("add_blend", &Executor::add_blend, "label"_a, nb::kw_only(), "rows"_a, "left"_a,
           "right"_a, "share"_a, "out"_a)
      .def("add_softcap", &Executor::add_softcap, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "out"_a, "cap"_a)
      .def("add_select", &Executor::add_select, "label"_a, nb::kw_only(), "input"_a, "out"_a)
      .def("add_linear", &Executor::add_linear, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "weights"_a, "norm"_a.none(), "activation"_a, "residual"_a.none(), "softcap"_a, "planes"_a)
      .def("add_adapt", &Executor::add_adapt, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "base"_a,
           "out"_a, "adapters"_a)
      .def("add_adapt_embed", &Executor::add_adapt_embed, "label"_a, nb::kw_only(), "base"_a, "out"_a,
           "scale"_a, "adapters"_a)
      .def("add_head_linear", &Executor::add_head_linear, "label"_a, nb::kw_only(), "rows"_a,
           "input"_a, "out"_a, "weight"_a, "heads"_a, "carried"_a, "planes"_a)
      .def("add_experts", &Executor::add_experts, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "scores"_a, "out"_a, "routing"_a, "gate"_a.none(), "up"_a, "down"_a, "activation"_a,
           "planes"_a, "gate_adapters"_a = PairsOf(), "up_adapters"_a = PairsOf(),
           "down_adapters"_a = PairsOf())
      .def("add_squares", &Executor::add_squares, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "norm"_a.none(), "heads"_a, "carried"_a)
      .def("add_expert_squares", &Executor::add_expert_squares, "label"_a, nb::kw_only(), "rows"_a,
           "input"_a, "num_experts"_a, "feed_forward"_a)
      .def("add_attention", &Executor::add_attention, "label"_a, nb::kw_only(), "rows"_a, "query"_a,
           "key"_a.none(), "value"_a.none(), "out"_a, "key_heads"_a, "key_width"_a, "value_width"_a, "layer_offset"_a, "scale"_a,
           "window"_a, "softcap"_a, "sinks"_a.none(), "query_norm"_a.none(), "key_norm"_a.none(),
           "rope"_a.none(), "kv_type"_a)
      .def("add_shift", &Executor::add_shift, "label"_a, nb::kw_only(), "input"_a, "out"_a, "state"_a)
      .def("add_conv", &Executor::add_conv, "label"_a, nb::kw_only(), "input"_a, "out"_a, "taps"_a,
           "bias"_a, "num_taps"_a, "activation"_a, "state"_a)
      .def("add_scan", &Executor::add_scan, "label"_a, nb::kw_only(), "input"_a, "step"_a, "b"_a,
           "c"_a, "out"_a, "a"_a, "d"_a, "step_bias"_a, "head_width"_a, "state_width"_a, "groups"_a,
           "is_by_state"_a, "step_low"_a, "step_high"_a, "state"_a)
      .def("add_wkv4", &Executor::add_wkv4, "label"_a, nb::kw_only(), "key"_a, "value"_a, "out"_a,
           "decay"_a, "first"_a, "state"_a)
      .def("add_wkv7", &Executor::add_wkv7, "label"_a, nb::kw_only(), "receptance"_a, "decay"_a,
           "key"_a, "value"_a, "removal"_a, "rate"_a, "out"_a, "head_width"_a, "state"_a)
      .def("add_delta", &Executor::add_delta, "label"_a, nb::kw_only(), "query"_a, "key"_a, "value"_a,
           "step"_a, "rate"_a, "out"_a, "a"_a, "step_bias"_a, "key_heads"_a, "is_tiled"_a, "state"_a)
      .def("run", &Executor::run, nb::kw_only(), "token_ids"_a, "positions"_a, "sequence_starts"_a,
           "page_tables"_a, "output_rows"_a, "state_slots"_a, "adapters"_a)
      .def("logits", &Executor::logits, nb::rv_policy::reference_internal)
      .def("pages", &Executor::pages, nb::rv_policy::reference_internal)
      .def("states", &Executor::states, nb::rv_policy::reference_internal)
      .def("copy_page", &Executor::copy_page, "source"_a, "target"_a)
      .def("broken_outputs", &Executor::broken_outputs)
      .def("squares", &Executor::squares, "index"_a)
      .def("profile", &Executor::profile, "on"_a)
      .def("phases", &Executor::phases)
      .def_prop_ro("isa", &Executor::isa);
}
