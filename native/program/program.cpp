#include "program/program.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace pyrite {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 2000;      // about 40 us: longer than most waits inside a step
constexpr int kCrowdedSpins = 50;  // when members outnumber the cores they may run on

int available_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// An odd number of cache lines: rows of a tile then fall into different sets of the caches.
size_t odd_lines(int floats) { return size_t((floats + 15) / 16 | 1) * 16; }

size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// What the scratch of a member has to hold for the operations of a program.
struct Need {
  int row = 0;
  size_t attention = 0;
  size_t row_bytes = 0;
  int tile_rows = 32;
};

void need_of(const LinearOp& op, const KernelTable&, Need& need) {
  need.row = std::max(need.row, op.preparation.in.width);
  need.row_bytes = std::max(need.row_bytes, op.preparation.row_bytes);
}

void need_of(const NormOp& op, const KernelTable&, Need& need) {
  need.row = std::max(need.row, op.in.width);
}

void need_of(const AttendOp& op, const KernelTable& kernels, Need& need) {
  need.attention = std::max(need.attention, attention_floats(kernels.attention, op.attention));
  need.tile_rows = std::min(need.tile_rows, tile_rows(op.attention.group()));
}

template <class Other>
void need_of(const Other&, const KernelTable&, Need&) {}

Need need_of(const std::vector<Op>& ops, const KernelTable& kernels) {
  Need need;
  for (const Op& op : ops) {
    std::visit([&](const auto& held) { need_of(held, kernels, need); }, op);
  }
  return need;
}

}  // namespace

Program::Program(const KernelTable& kernels, const Sizes& sizes)
    : kernels_(kernels),
      sizes_(sizes),
      arena_stride_(odd_lines(sizes.arena_columns)),
      arena_(sizeof(float) * arena_stride_ * size_t(sizes.max_tokens)),
      logits_(sizeof(float) * size_t(sizes.result_width) * size_t(sizes.max_tokens)),
      pages_(sizes.page_bytes * size_t(sizes.num_pages)),
      step_(kernels) {}

const PackedMatrix* Program::add_matrix(const PackedMatrix& matrix) {
  return &matrices_.emplace_back(matrix);
}

const float* Program::add_vector(std::vector<float> vector) {
  return vectors_.emplace_back(std::move(vector)).data();
}

RopeTable* Program::add_rope(std::vector<double> frequencies, double factor, bool pairs) {
  return &ropes_.emplace_back(std::move(frequencies), factor, pairs);
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
  const Need need = need_of(ops_, kernels_);
  const size_t row = line_up(sizeof(float) * size_t(need.row));
  const size_t tile = sizeof(float) * 2 * kTileRows * kTileStride;
  const size_t attention = line_up(sizeof(float) * need.attention);
  members_.resize(size_t(sizes_.num_threads));
  for (Member& member : members_) {
    member.region = Region(row + tile + attention + kPrivateRows * need.row_bytes);
    uint8_t* data = member.region.data();
    member.row = reinterpret_cast<float*>(data);
    member.tile = reinterpret_cast<float*>(data + row);
    member.attention = reinterpret_cast<float*>(data + row + tile);
    member.activations = data + row + tile + attention;
  }
  activations_ = Region(need.row_bytes * size_t(sizes_.max_tokens));
  step_.tiles.reserve(size_t(sizes_.max_tokens));
  step_.num_members = sizes_.num_threads;
  step_.tile_rows = need.tile_rows;
  spins_ = available_cores() >= sizes_.num_threads ? kSpins : kCrowdedSpins;
  step_.pages = pages_.data();
  step_.page_bytes = sizes_.page_bytes;
  step_.activations = activations_.data();
  tickets_ = std::make_unique<Tickets[]>(ops_.size());
  nanoseconds_.assign(ops_.size(), 0);
  finite_.reserve(size_t(sizes_.max_tokens));
}

void Program::run(const Batch& batch) {
  if (team_ == nullptr) {
    allocate_members();
    team_ = std::make_unique<Team>(
        sizes_.num_threads,
        [](void* program, int member, uint32_t epoch) {
          static_cast<Program*>(program)->work(member, epoch);
        },
        this);
  }
  finite_.assign(size_t(batch.num_outputs), 1);
  step_.lay_out(batch, team_->next_epoch());
  step_.finite = finite_.data();
  for (RopeTable& rope : ropes_) rope.grow(step_.end_position);
  for (size_t phase = 0; phase < ops_.size(); ++phase) {
    const int chunks = std::visit([&](const auto& op) { return count_chunks(op, step_); }, ops_[phase]);
    tickets_[phase].reset(step_.epoch, chunks);
  }
  team_->run();
}

// Every member walks all phases. A stale member leaves as soon as it meets another step's epoch; it
// reads nothing of the step without holding a chunk of it.
void Program::work(int index, uint32_t epoch) {
  Member& member = members_[size_t(index)];
  const bool timed = index == 0 && profiling_;
  Clock::time_point start = timed ? Clock::now() : Clock::time_point();
  for (size_t phase = 0; phase < ops_.size(); ++phase) {
    Tickets& tickets = tickets_[phase];
    int chunk;
    while ((chunk = tickets.take(epoch)) >= 0) {
      std::visit([&](const auto& op) { run_chunk(op, step_, member, chunk); }, ops_[phase]);
      tickets.finish();
    }
    if (chunk == Tickets::kStale || !tickets.wait(epoch, spins_)) return;
    if (timed) {
      const Clock::time_point end = Clock::now();
      nanoseconds_[phase] += std::chrono::nanoseconds(end - start).count();
      start = end;
    }
  }
}

void Program::copy_page(int source, int target) {
  std::memcpy(pages_.data() + size_t(target) * sizes_.page_bytes,
              pages_.data() + size_t(source) * sizes_.page_bytes, sizes_.page_bytes);
}

void Program::profile(bool on) {
  profiling_ = on;
  std::fill(nanoseconds_.begin(), nanoseconds_.end(), 0);
}

}  // namespace pyrite
