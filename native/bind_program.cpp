// The executor's door. A plan is lowered by calls in the order of its operations. Every index, width
// and batch is checked here; the native side trusts what passed.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <limits>
#include <optional>
#include <span>

#include "program/binding.h"
#include "program/phase_cost.h"
#include "program/populate.h"
#include "program/program.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace pyrite;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Tables = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;
using Pages = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>, nb::c_contig>;

using Columns = std::pair<int, int>;              // first column (-1: of the logits), width
using NormOf = std::optional<std::pair<int, float>>;  // vector, eps

void require(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

const KernelTable& find_kernels(const std::string& isa) {
  const char* error = "";
  const KernelTable* kernels = kernel_table(isa.c_str(), &error);
  if (kernels == nullptr) throw nb::value_error((isa + ": " + error).c_str());
  return *kernels;
}

WeightType weight_type(const std::string& name) {
  WeightType type{};
  require(weight_type_of(name.c_str(), &type), "not a type that has kernels");
  return type;
}

Sizes checked(const Sizes& sizes) {
  require(sizes.num_threads >= 1 && sizes.num_threads <= 1024, "num_threads is out of range");
  require(sizes.max_tokens >= 1 && sizes.arena_columns >= 0, "an arena size is out of range");
  require(sizes.result_width >= 1 && sizes.num_pages >= 0, "result_width or num_pages is out of range");
  return sizes;
}

Team::Places checked(Team::Places places, const Sizes& sizes) {
  require(places.empty() || places.size() == size_t(sizes.num_threads), "a thread has no place");
  for (const std::vector<int>& cpus : places) {
    for (int cpu : cpus) require(cpu >= 0 && cpu < CPU_SETSIZE, "a processor's number is out of range");
  }
  return places;
}

// A program and the Python arrays whose memory it reads.
class Executor {
 public:
  Executor(const std::string& isa, const Sizes& sizes, Team::Places places)
      : program_(find_kernels(isa), checked(sizes), checked(std::move(places), sizes)) {}

  int add_matrix(const std::string& type, int rows, int columns, Bytes data) {
    require(rows > 0 && columns > 0, "a matrix is empty");
    const size_t panels = size_t(rows + kPanelRows - 1) / kPanelRows;
    PackedMatrix matrix = {weight_type(type), rows, columns, 0, data.data()};
    matrix.panel_bytes = packed_panel_bytes(matrix.type, columns);
    require(data.shape(0) >= panels * matrix.panel_bytes, "packed data is too short");
    require(reinterpret_cast<uintptr_t>(data.data()) % 64 == 0, "packed data is not aligned");
    matrices_.push_back(program_.add_matrix(matrix));
    kept_.push_back(nb::cast(data));
    return int(matrices_.size()) - 1;
  }

  int add_vector(Vector data) {
    const float* copy = program_.add_vector({data.data(), data.data() + data.shape(0)});
    vectors_.emplace_back(copy, data.shape(0));
    return int(vectors_.size()) - 1;
  }

  int add_rope(Doubles frequencies, double factor, bool pairs) {
    std::vector<double> copy(frequencies.data(), frequencies.data() + frequencies.shape(0));
    ropes_.push_back(program_.add_rope(std::move(copy), factor, pairs));
    return int(ropes_.size()) - 1;
  }

  void add_embed(const std::string& label, int table, float scale, Columns out) {
    const PackedMatrix* matrix = matrix_of(table);
    require(matrix->columns == out.second, "an embedding's width differs from its value's");
    num_embeddings_ = std::min(num_embeddings_, matrix->rows);
    program_.add(EmbedOp{matrix, scale, slice(out)}, label);
  }

  void add_norm(const std::string& label, Rows rows, Columns in, Columns out, NormOf norm, int group,
                std::optional<Columns> residual) {
    require(group > 0 && in.second % group == 0 && in.second == out.second, "a norm's widths differ");
    require(norm.has_value(), "a norm needs a weight");
    program_.add(NormOp{rows, slice(in), slice(out), norm_of(norm, group), group,
                        residual ? slice(*residual) : Slice()},
                 label);
  }

  void add_rotate(const std::string& label, Columns in, Columns out, int head_width, int rope) {
    require(head_width > 0 && in.second % head_width == 0 && in.second == out.second,
            "a rotation's widths differ");
    program_.add(RotateOp{slice(in), slice(out), head_width, rope_of(rope, head_width)}, label);
  }

  void add_gate(const std::string& label, Rows rows, Columns gate, Columns up, Columns out,
                Activation activation) {
    require(gate.second == out.second && up.second == out.second, "a gate's widths differ");
    require(activation != Activation::kNone, "a gate needs an activation");
    program_.add(GateOp{rows, slice(gate), slice(up), slice(out), activation}, label);
  }

  void add_add(const std::string& label, Rows rows, Columns left, Columns right, Columns out) {
    require(left.second == out.second && right.second == out.second, "a sum's widths differ");
    program_.add(AddOp{rows, slice(left), slice(right), slice(out)}, label);
  }

  void add_softcap(const std::string& label, Rows rows, Columns in, Columns out, float cap) {
    require(in.second == out.second && cap > 0, "a cap's widths differ, or it is not positive");
    program_.add(SoftcapOp{rows, slice(in), slice(out), cap}, label);
  }

  void add_select(const std::string& label, Columns in, Columns out) {
    require(in.second == out.second, "a selection's widths differ");
    program_.add(SelectOp{slice(in), slice(out)}, label);
  }

  void add_linear(const std::string& label, Rows rows, Columns in, Columns out,
                  const std::vector<std::pair<int, int>>& weights, NormOf norm,
                  Activation activation, std::optional<Columns> residual, float softcap, int planes) {
    LinearOp op;
    op.preparation = {rows, slice(in), norm_of(norm, in.second), planes};
    op.out = slice(out);
    op.activation = activation;
    op.residual = residual ? slice(*residual) : Slice();
    op.softcap = softcap;
    op.is_result = out.first < 0;
    require(planes == 1 || planes == 2, "planes is 1 or 2");
    require(!residual || residual->second == out.second, "a residual's width differs");
    require(segments_of(weights, activation, in.second, op.segments) == out.second,
            "a product's width differs from its value's");
    choose_forms(op);
    program_.add(PrepareOp{op.preparation}, label + " prepare");
    program_.add(std::move(op), label);
  }

  void add_attention(const std::string& label, Columns query, Columns key, Columns value, Columns out,
                     int key_heads, int head_width, size_t layer_offset, float scale, int window,
                     float softcap, NormOf query_norm, NormOf key_norm, std::optional<int> rope,
                     KvType kv_type) {
    require(key_heads > 0 && head_width > 0 && head_width % 8 == 0, "heads are of 8 columns or more");
    require(query.second % (head_width * key_heads) == 0 && out.second == query.second &&
                key.second == head_width * key_heads && value.second == key.second,
            "attention's widths differ");
    const size_t layer_bytes = size_t(key_heads) * head_block_bytes(head_width, kv_type);
    require(layer_offset % 64 == 0 && layer_offset + layer_bytes <= program_.sizes().page_bytes,
            "a layer lies outside of its page");
    require(window >= 0, "a window is 0 or more");
    AttentionOp op{slice(query), slice(key), slice(value), slice(out)};
    op.heads = query.second / head_width;
    op.key_heads = key_heads;
    op.head_width = head_width;
    op.layer_offset = layer_offset;
    op.scale = scale;
    op.window = window;
    op.softcap = softcap;
    op.query_norm = norm_of(query_norm, head_width);
    op.key_norm = norm_of(key_norm, head_width);
    op.kv_type = kv_type;
    op.rope = rope ? rope_of(*rope, head_width) : nullptr;
    window_ = std::max(window_, window == 0 ? kWholeContext : window);
    program_.add(StoreOp{op}, label + " store");
    program_.add(AttendOp{op}, label);
    program_.add(JoinOp{op}, label + " join");
  }

  void run(Indices token_ids, Indices positions, Indices sequence_starts, Tables page_tables,
           Indices output_rows) {
    Batch batch;
    batch.num_tokens = int(token_ids.shape(0));
    batch.num_sequences = int(sequence_starts.shape(0)) - 1;
    batch.num_outputs = int(output_rows.shape(0));
    batch.token_ids = token_ids.data();
    batch.positions = positions.data();
    batch.sequence_starts = sequence_starts.data();
    batch.page_tables = page_tables.data();
    batch.page_table_width = int(page_tables.shape(1));
    batch.output_rows = output_rows.data();
    require(positions.shape(0) == token_ids.shape(0), "positions and token_ids differ in size");
    require(page_tables.shape(0) + 1 == sequence_starts.shape(0), "a sequence has no page table");
    check(batch);
    const Busy busy(busy_);
    nb::gil_scoped_release released;
    program_.run(batch);
  }

  Logits logits() { return {program_.logits(), {rows(), size_t(program_.sizes().result_width)}}; }

  Pages pages() {
    return {program_.pages(), {size_t(program_.sizes().num_pages), program_.sizes().page_bytes}};
  }

  void copy_page(int source, int target) {
    const int pages = program_.sizes().num_pages;
    require(source >= 0 && source < pages && target >= 0 && target < pages, "no such page");
    if (source != target) program_.copy_page(source, target);
  }

  std::vector<int> broken_outputs() const {
    std::vector<int> broken;
    for (size_t row = 0; row < program_.finite().size(); ++row) {
      if (program_.finite()[row] == 0) broken.push_back(int(row));
    }
    return broken;
  }

  void profile(bool on) { program_.profile(on); }

  std::vector<std::tuple<std::string, int64_t, std::vector<int64_t>>> phases() const {
    std::vector<std::tuple<std::string, int64_t, std::vector<int64_t>>> phases;
    for (PhaseTime& time : program_.phase_times()) {
      phases.emplace_back(std::move(time.label), time.spent, std::move(time.idle));
    }
    return phases;
  }

  const char* isa() const { return program_.kernels().isa; }

 private:
  static constexpr int kWholeContext = 1 << 30;

  // Held while the program runs; given back however the run ends.
  struct Busy {
    explicit Busy(std::atomic<bool>& flag) : flag(flag) {
      if (flag.exchange(true)) throw std::runtime_error("another thread is running this program");
    }
    ~Busy() { flag = false; }
    Busy(const Busy&) = delete;
    std::atomic<bool>& flag;
  };

  size_t rows() const { return size_t(program_.sizes().max_tokens); }

  const PackedMatrix* matrix_of(int index) const {
    require(index >= 0 && size_t(index) < matrices_.size(), "no such matrix");
    return matrices_[size_t(index)];
  }

  const float* vector_of(int index, int width) const {
    require(index >= 0 && size_t(index) < vectors_.size(), "no such vector");
    require(int(vectors_[size_t(index)].size()) == width, "a vector's width differs");
    return vectors_[size_t(index)].data();
  }

  const RopeTable* rope_of(int index, int head_width) const {
    require(index >= 0 && size_t(index) < ropes_.size(), "no such rope");
    require(2 * ropes_[size_t(index)]->half() <= head_width, "a rope is wider than its head");
    return ropes_[size_t(index)];
  }

  Norm norm_of(NormOf norm, int width) const {
    return norm ? Norm{vector_of(norm->first, width), norm->second} : Norm();
  }

  Slice slice(Columns columns) const {
    const Sizes& sizes = program_.sizes();
    require(columns.second > 0, "a value is empty");
    const bool inside = columns.first < 0
                            ? columns.second == sizes.result_width
                            : columns.second <= sizes.arena_columns - columns.first;
    require(inside, "a value lies outside of the arena");
    return program_.slice(columns.first, columns.second);
  }

  Segment segment_of(std::pair<int, int> weight, int columns, int first_output) const {
    const PackedMatrix* matrix = matrix_of(weight.first);
    require(matrix->columns == columns, "a weight's columns differ from its input's");
    Segment segment;
    segment.matrix = matrix;
    segment.bias = weight.second < 0 ? nullptr : vector_of(weight.second, matrix->rows);
    segment.first_output = first_output;
    return segment;
  }

  // Returns the number of outputs.
  int segments_of(const std::vector<std::pair<int, int>>& weights, Activation activation, int columns,
                  std::vector<Segment>& segments) const {
    require(!weights.empty(), "a product needs a weight");
    if (activation != Activation::kNone) {
      require(weights.size() == 2, "a gated product has two weights");
      Segment gate = segment_of(weights[0], columns, 0);
      const Segment up = segment_of(weights[1], columns, 0);
      require(gate.matrix->rows == up.matrix->rows, "gate and up differ in size");
      gate.pair = up.matrix;
      gate.pair_bias = up.bias;
      segments.push_back(gate);
      return gate.matrix->rows;
    }
    int outputs = 0;
    for (const auto& weight : weights) {
      segments.push_back(segment_of(weight, columns, outputs));
      outputs += segments.back().matrix->rows;
    }
    return outputs;
  }

  void choose_forms(LinearOp& op) const {
    const KernelTable& kernels = program_.kernels();
    Preparation& preparation = op.preparation;
    for (const Segment& segment : op.segments) {
      preparation.forms |= kernels.activation_forms(segment.matrix->type, preparation.planes);
      if (segment.pair == nullptr) continue;
      preparation.forms |= kernels.activation_forms(segment.pair->type, preparation.planes);
    }
    preparation.row_bytes = kernels.activation_bytes(preparation.in.width, preparation.planes,
                                                     preparation.forms);
  }

  void check(const Batch& batch) const {
    require(batch.num_tokens >= 1 && size_t(batch.num_tokens) <= rows(), "too many or no tokens");
    require(batch.num_sequences >= 1 && batch.sequence_starts[0] == 0 &&
                batch.sequence_starts[batch.num_sequences] == batch.num_tokens,
            "sequences do not cover the tokens");
    for (int i = 0; i < batch.num_tokens; ++i) {
      require(batch.token_ids[i] >= 0 && batch.token_ids[i] < num_embeddings_, "no such token");
    }
    for (int i = 0; i < batch.num_sequences; ++i) check_sequence(batch, i);
    for (int i = 0; i < batch.num_outputs; ++i) {
      const int before = i == 0 ? -1 : batch.output_rows[i - 1];
      require(batch.output_rows[i] > before && batch.output_rows[i] < batch.num_tokens,
              "output rows do not ascend within the batch");
    }
  }

  void check_sequence(const Batch& batch, int sequence) const {
    const int start = batch.sequence_starts[sequence];
    const int end = batch.sequence_starts[sequence + 1];
    require(start <= end && end <= batch.num_tokens, "sequence starts do not ascend");
    if (start == end) return;
    const int first = batch.positions[start];
    const int64_t last = int64_t(first) + (end - start) - 1;
    require(first >= 0 && last / kPageTokens < batch.page_table_width,
            "a position lies outside of its page table");
    for (int i = start; i < end; ++i) {
      require(batch.positions[i] == first + (i - start), "a sequence's positions are not adjacent");
    }
    const int32_t* pages = batch.page_tables + size_t(sequence) * size_t(batch.page_table_width);
    const int seen = std::max(0, first - window_ + 1);
    for (int page = seen / kPageTokens; page <= int(last) / kPageTokens; ++page) {
      require(pages[page] >= 0 && pages[page] < program_.sizes().num_pages,
              "a position that is seen has no page");
    }
  }

  Program program_;
  std::vector<const PackedMatrix*> matrices_;
  std::vector<std::span<const float>> vectors_;
  std::vector<RopeTable*> ropes_;
  std::vector<nb::object> kept_;
  int num_embeddings_ = std::numeric_limits<int>::max();
  int window_ = 1;  // positions that some layer sees
  std::atomic<bool> busy_{false};
};

}  // namespace

void bind_program(nb::module_ module) {
  nb::enum_<Rows>(module, "Rows")
      .value("TOKENS", Rows::kTokens)
      .value("OUTPUTS", Rows::kOutputs);
  nb::enum_<Activation>(module, "Activation")
      .value("NONE", Activation::kNone)
      .value("SILU", Activation::kSilu)
      .value("GELU_TANH", Activation::kGeluTanh);
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
        nb::gil_scoped_release released;
        return phase_seconds(num_threads);
      },
      "num_threads"_a);
  module.def("head_block_bytes", &head_block_bytes, "head_width"_a, "kv_type"_a);
  module.def(
      "populate", [](Bytes data) { populate(data.data(), data.shape(0)); }, "data"_a);

  nb::class_<Executor>(module, "Program")
      .def(
          "__init__",
          [](Executor* self, const std::string& isa, int num_threads, int max_tokens,
             int arena_columns, int result_width, int num_pages, size_t page_bytes,
             Team::Places places) {
            new (self) Executor(isa, {num_threads, max_tokens, arena_columns, result_width, num_pages,
                                      page_bytes},
                                std::move(places));
          },
          nb::kw_only(), "isa"_a, "num_threads"_a, "max_tokens"_a, "arena_columns"_a, "result_width"_a,
          "num_pages"_a, "page_bytes"_a, "places"_a = Team::Places())
      .def("add_matrix", &Executor::add_matrix, "type"_a, "rows"_a, "columns"_a, "data"_a)
      .def("add_vector", &Executor::add_vector, "data"_a)
      .def("add_rope", &Executor::add_rope, "frequencies"_a, "factor"_a, "pairs"_a)
      .def("add_embed", &Executor::add_embed, "label"_a, nb::kw_only(), "table"_a, "scale"_a, "out"_a)
      .def("add_norm", &Executor::add_norm, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "norm"_a, "group"_a, "residual"_a.none())
      .def("add_rotate", &Executor::add_rotate, "label"_a, nb::kw_only(), "input"_a, "out"_a,
           "head_width"_a, "rope"_a)
      .def("add_gate", &Executor::add_gate, "label"_a, nb::kw_only(), "rows"_a, "gate"_a, "up"_a,
           "out"_a, "activation"_a)
      .def("add_add", &Executor::add_add, "label"_a, nb::kw_only(), "rows"_a, "left"_a, "right"_a,
           "out"_a)
      .def("add_softcap", &Executor::add_softcap, "label"_a, nb::kw_only(), "rows"_a, "input"_a,
           "out"_a, "cap"_a)
      .def("add_select", &Executor::add_select, "label"_a, nb::kw_only(), "input"_a, "out"_a)
      .def("add_linear", &Executor::add_linear, "label"_a, nb::kw_only(), "rows"_a, "input"_a, "out"_a,
           "weights"_a, "norm"_a.none(), "activation"_a, "residual"_a.none(), "softcap"_a, "planes"_a)
      .def("add_attention", &Executor::add_attention, "label"_a, nb::kw_only(), "query"_a, "key"_a,
           "value"_a, "out"_a, "key_heads"_a, "head_width"_a, "layer_offset"_a, "scale"_a, "window"_a,
           "softcap"_a, "query_norm"_a.none(), "key_norm"_a.none(), "rope"_a.none(),
           "kv_type"_a)
      .def("run", &Executor::run, nb::kw_only(), "token_ids"_a, "positions"_a, "sequence_starts"_a,
           "page_tables"_a, "output_rows"_a)
      .def("logits", &Executor::logits, nb::rv_policy::reference_internal)
      .def("pages", &Executor::pages, nb::rv_policy::reference_internal)
      .def("copy_page", &Executor::copy_page, "source"_a, "target"_a)
      .def("broken_outputs", &Executor::broken_outputs)
      .def("profile", &Executor::profile, "on"_a)
      .def("phases", &Executor::phases)
      .def_prop_ro("isa", &Executor::isa);
}
