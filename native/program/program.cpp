#include "program/program.h"

#include <algorithm>
#include <cstring>

namespace pyrite {

namespace {

// An odd number of cache lines: rows of a tile then fall into different sets of the caches.
size_t odd_lines(int floats) { return size_t((floats + 15) / 16 | 1) * 16; }

// For about 10000 spans of a model with 9 heads of 64, or 2000 of one with 32 of 128; costs nothing
// until a long context is cut.
constexpr size_t kPartialBytes = size_t(64) << 20;

size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// What the scratch of a member has to hold for the operations of a program.
struct Need {
  int row = 0;
  size_t attention = 0;
  size_t prepared = 0;  // bytes that members share
  size_t prepared_alone = 0;  // of each
  MixtureSizes mixture = {};
  int tile_rows = 32;
  int partial_floats = 1;  // of a row and span
  std::vector<TileCut> cuts = {};
};

// What one operation needs of it, by a program of so many tokens a step.
struct Asked {
  const KernelTable& kernels;
  int max_tokens;
};

void need_of(const LinearOp& op, const Asked& asked, Need& need) {
  const size_t row_bytes = op.preparation.row_bytes;
  need.row = std::max(need.row, op.preparation.in.width);
  need.prepared = std::max(need.prepared, row_bytes * size_t(asked.max_tokens));
  need.prepared_alone = std::max(need.prepared_alone, row_bytes * kPrivateRows);
}

void need_of(const AdaptOp& op, const Asked&, Need& need) {
  need.prepared_alone = std::max(need.prepared_alone, adapt_bytes(op));
}

void need_of(const HeadLinearOp& op, const Asked&, Need& need) {
  need.prepared_alone = std::max(need.prepared_alone, op.row_bytes * kTileRows);
}

void need_of(const RouteOp& op, const Asked& asked, Need& need) {
  const ExpertsOp& experts = op.experts;
  const MixtureSizes sizes = mixture_sizes(experts, asked.max_tokens);
  need.row = std::max(need.row, int(routing_floats(experts.routing)));
  need.prepared = std::max({need.prepared, experts.row_bytes * size_t(asked.max_tokens),
                            experts.inner_row_bytes * sizes.pairs});
  need.prepared_alone = std::max(need.prepared_alone, experts_bytes(experts));
  need.mixture.pairs = std::max(need.mixture.pairs, sizes.pairs);
  need.mixture.experts = std::max(need.mixture.experts, sizes.experts);
  need.mixture.inner = std::max(need.mixture.inner, sizes.inner);
  need.mixture.given = std::max(need.mixture.given, sizes.given);
  need.mixture.ranks = std::max(need.mixture.ranks, sizes.ranks);
}

void need_of(const NormOp& op, const Asked&, Need& need) {
  need.row = std::max(need.row, op.in.width);
}

void need_of(const AttendOp& op, const Asked& asked, Need& need) {
  need.attention = std::max(need.attention, attention_floats(asked.kernels.attention, op.attention));
  need.tile_rows = std::min(need.tile_rows, tile_rows(op.attention.group()));
  need.partial_floats = std::max(need.partial_floats, partial_floats(op.attention));
  add_cut(need.cuts, op.attention.rows, op.attention.window, op.attention.key_heads);
}

template <class Other>
void need_of(const Other&, const Asked&, Need&) {}

Need need_of(const std::vector<Op>& ops, const Asked& asked) {
  Need need;
  for (const Op& op : ops) {
    std::visit([&](const auto& held) { need_of(held, asked, need); }, op);
  }
  return need;
}

}  // namespace

Program::Program(const KernelTable& kernels, const Sizes& sizes, Team::Places places)
    : kernels_(kernels),
      sizes_(sizes),
      places_(std::move(places)),
      arena_stride_(odd_lines(sizes.arena_columns)),
      arena_(sizeof(float) * arena_stride_ * size_t(sizes.max_tokens)),
      logits_(sizeof(float) * size_t(sizes.result_width) * size_t(sizes.max_tokens)),
      pages_(sizes.page_bytes * size_t(sizes.num_pages)),
      states_(sizeof(float) * sizes.state_floats * size_t(sizes.num_slots)),
      step_(kernels) {}

const PackedMatrix* Program::add_matrix(const PackedMatrix& matrix) {
  return &matrices_.emplace_back(matrix);
}

const float* Program::add_vector(std::vector<float> vector) {
  return vectors_.emplace_back(std::move(vector)).data();
}

RopeTable* Program::add_rope(std::vector<double> frequencies, double factor, bool pairs,
                             double growth, int growth_span) {
  return &ropes_.emplace_back(std::move(frequencies), factor, pairs, growth, growth_span);
}

Squares* Program::add_squares(int matrices, int columns) {
  return &squares_.emplace_back(Squares{std::vector<double>(size_t(matrices) * size_t(columns)),
                                        std::vector<int64_t>(size_t(matrices))});
}

void Program::add(Op op, std::string label) {
  ops_.push_back(std::move(op));
  labels_.push_back(std::move(label));
}

Slice Program::slice(int start, int width) const {
  if (start < 0) return {logits_.floats(), size_t(sizes_.result_width), width};
  return {arena_.floats() + start, arena_stride_, width};
}

void Program::allocate_members() {
  const Need need = need_of(ops_, {kernels_, sizes_.max_tokens});
  const size_t row = line_up(sizeof(float) * size_t(need.row));
  const size_t tile = sizeof(float) * 3 * kTileRows * kTileStride;
  const size_t attention = line_up(sizeof(float) * need.attention);
  members_.resize(size_t(sizes_.num_threads));
  for (Member& member : members_) {
    member.region = Region(row + tile + attention + need.prepared_alone);
    uint8_t* data = member.region.data();
    member.row = reinterpret_cast<float*>(data);
    member.tile = reinterpret_cast<float*>(data + row);
    member.attention = reinterpret_cast<float*>(data + row + tile);
    member.activations = data + row + tile + attention;
  }
  activations_ = Region(need.prepared);
  mixture_.reserve(need.mixture);
  step_.mixture = &mixture_;
  partials_ = Region(kPartialBytes);
  step_.partials = partials_.floats();
  step_.max_partials = int(kPartialBytes / sizeof(float) / size_t(need.partial_floats));
  step_.cuts = need.cuts;
  step_.num_members = sizes_.num_threads;
  step_.reserve(sizes_.max_tokens);
  step_.tile_rows = need.tile_rows;
  step_.pages = pages_.data();
  step_.page_bytes = sizes_.page_bytes;
  step_.states = states_.floats();
  step_.state_floats = sizes_.state_floats;
  step_.activations = activations_.data();
  chunks_.resize(ops_.size());
  finite_.reserve(size_t(sizes_.max_tokens));
}

void Program::run(const Batch& batch) {
  if (team_ == nullptr) start();
  finite_.assign(size_t(batch.num_outputs), 1);
  step_.lay_out(batch);
  step_.finite = finite_.data();
  for (RopeTable& rope : ropes_) rope.grow(step_.end_position);
  for (size_t phase = 0; phase < ops_.size(); ++phase) {
    chunks_[phase] = std::visit([&](const auto& op) { return count_chunks(op, step_); }, ops_[phase]);
  }
  team_->run(chunks_);
}

void Program::start() {
  allocate_members();
  team_ = std::make_unique<Team>(
      sizes_.num_threads, int(ops_.size()),
      [](void* program, int member, int phase, int chunk) {
        static_cast<Program*>(program)->work(member, phase, chunk);
      },
      this, places_);
}

void Program::work(int member, int phase, int chunk) {
  std::visit([&](const auto& op) { run_chunk(op, step_, members_[size_t(member)], chunk); },
             ops_[size_t(phase)]);
}

void Program::copy_page(int source, int target) {
  std::memcpy(pages_.data() + size_t(target) * sizes_.page_bytes,
              pages_.data() + size_t(source) * sizes_.page_bytes, sizes_.page_bytes);
}

void Program::profile(bool on) {
  if (team_ == nullptr) start();
  team_->stopwatch().turn(on);
}

std::vector<PhaseTime> Program::phase_times() const {
  std::vector<PhaseTime> times;
  for (size_t phase = 0; phase < ops_.size(); ++phase) {
    PhaseTime& time = times.emplace_back(labels_[phase]);
    time.idle.resize(size_t(sizes_.num_threads));
    if (team_ == nullptr) continue;
    const Stopwatch& stopwatch = team_->stopwatch();
    time.spent = stopwatch.spent()[phase];
    for (size_t i = 0; i < time.idle.size(); ++i) time.idle[i] = stopwatch.idle(int(i), int(phase));
  }
  return times;
}

}  // namespace pyrite
