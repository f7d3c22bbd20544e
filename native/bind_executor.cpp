// Weights of an executor, its steps and what they leave. Sizes and batches are checked.

#include "bind_executor.h"
#include "bind_released.h"

#include <algorithm>
#include <utility>

namespace pyrite {

namespace {

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
  require(sizes.result_width >= 1 && sizes.num_pages >= 0,
          "result_width or num_pages is out of range");
  require(sizes.num_slots >= 0, "num_slots is out of range");
  return sizes;
}

Team::Places checked(Team::Places places, const Sizes& sizes) {
  require(places.empty() || places.size() == size_t(sizes.num_threads), "a thread has no place");
  for (const std::vector<int>& cpus : places) {
    for (int cpu : cpus) {
      require(cpu >= 0 && cpu < CPU_SETSIZE, "a processor's number is out of range");
    }
  }
  return places;
}

}  // namespace

Executor::Executor(const std::string& isa, const Sizes& sizes, Team::Places places)
    : program_(find_kernels(isa), checked(sizes), checked(std::move(places), sizes)),
      slot_runs_(size_t(sizes.num_slots)) {}

int Executor::add_matrix(const std::string& type, int count, int rows, int columns, Bytes data) {
  require(count > 0 && rows > 0 && columns > 0, "a matrix is empty");
  const size_t panels = size_t(count) * (size_t(rows + kPanelRows - 1) / kPanelRows);
  PackedMatrix matrix = {weight_type(type), rows, columns, 0, data.data()};
  matrix.panel_bytes = packed_panel_bytes(matrix.type, columns);
  require(data.shape(0) >= panels * matrix.panel_bytes, "packed data is too short");
  require(reinterpret_cast<uintptr_t>(data.data()) % 64 == 0, "packed data is not aligned");
  matrices_.push_back(program_.add_matrix(matrix));
  stack_sizes_.push_back(count);
  kept_.push_back(nb::cast(data));
  return int(matrices_.size()) - 1;
}

int Executor::add_vector(Vector data) {
  const float* copy = program_.add_vector({data.data(), data.data() + data.shape(0)});
  vectors_.emplace_back(copy, data.shape(0));
  return int(vectors_.size()) - 1;
}

int Executor::add_rope(Doubles frequencies, double factor, bool pairs, double growth, int growth_span) {
  std::vector<double> copy(frequencies.data(), frequencies.data() + frequencies.shape(0));
  require(growth_span > 0, "growth_span must be positive");
  ropes_.push_back(program_.add_rope(std::move(copy), factor, pairs, growth, growth_span));
  return int(ropes_.size()) - 1;
}

void Executor::run(Indices token_ids, Indices positions, Indices sequence_starts,
                   Tables page_tables, Indices output_rows, Indices state_slots,
                   Indices adapters) {
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
  batch.state_slots = state_slots.data();
  if (adapters.shape(0) > 0) batch.adapters = adapters.data();
  require(positions.shape(0) == token_ids.shape(0), "positions and token_ids differ in size");
  require(page_tables.shape(0) + 1 == sequence_starts.shape(0), "a sequence has no page table");
  check(batch);
  if (batch.adapters != nullptr) check_adapters(batch, adapters.shape(0));
  const Busy busy(busy_);
  if (program_.sizes().state_floats > 0) check_slots(batch, state_slots.shape(0));
  Released released;
  program_.run(batch);
}

Logits Executor::logits() {
  return {program_.logits(), {rows(), size_t(program_.sizes().result_width)}};
}

Pages Executor::pages() {
  return {program_.pages(), {size_t(program_.sizes().num_pages), program_.sizes().page_bytes}};
}

States Executor::states() {
  return {program_.states(), {size_t(program_.sizes().num_slots), program_.sizes().state_floats}};
}

void Executor::copy_page(int source, int target) {
  const int pages = program_.sizes().num_pages;
  require(source >= 0 && source < pages && target >= 0 && target < pages, "no such page");
  if (source != target) program_.copy_page(source, target);
}

std::vector<int> Executor::broken_outputs() const {
  std::vector<int> broken;
  for (size_t row = 0; row < program_.finite().size(); ++row) {
    if (program_.finite()[row] == 0) broken.push_back(int(row));
  }
  return broken;
}

std::vector<std::tuple<std::string, int64_t, std::vector<int64_t>>> Executor::phases() const {
  std::vector<std::tuple<std::string, int64_t, std::vector<int64_t>>> phases;
  for (PhaseTime& time : program_.phase_times()) {
    phases.emplace_back(std::move(time.label), time.spent, std::move(time.idle));
  }
  return phases;
}

void Executor::check(const Batch& batch) const {
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

void Executor::check_sequence(const Batch& batch, int sequence) const {
  const int start = batch.sequence_starts[sequence];
  const int end = batch.sequence_starts[sequence + 1];
  require(start <= end && end <= batch.num_tokens, "sequence starts do not ascend");
  if (start == end) return;
  const int first = batch.positions[start];
  const int64_t last = int64_t(first) + (end - start) - 1;
  require(first >= 0 && last / kPageTokens < batch.page_table_width,
          "a position lies outside of its page table");
  require(last < num_positions_, "a position has no embedding");
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

// Each sequence has a slot of its own.
void Executor::check_slots(const Batch& batch, size_t num_slots) {
  require(num_slots == size_t(batch.num_sequences), "a sequence has no state slot");
  ++num_runs_;
  for (int i = 0; i < batch.num_sequences; ++i) {
    const int slot = batch.state_slots[i];
    require(slot >= 0 && slot < program_.sizes().num_slots, "no such state slot");
    require(slot_runs_[size_t(slot)] != num_runs_, "two sequences have one state slot");
    slot_runs_[size_t(slot)] = num_runs_;
  }
}

}  // namespace pyrite
