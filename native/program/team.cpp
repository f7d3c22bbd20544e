#include "program/team.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "program/binding.h"
#include "program/pause.h"

namespace pyrite {

namespace {

constexpr int kSpins = 2000;       // about 40 us: longer than most waits inside a step
constexpr int kCrowdedSpins = 50;  // when members outnumber the cores they may run on
// About 20 us: longer than a gap between two steps of a busy engine with little to do in between,
// and too short to be seen in the load of an idle one.
constexpr int kIdleSpins = 400;

constexpr int kTicketBits = 20;
constexpr int kPhaseBits = 12;
constexpr int kMostTickets = (1 << kTicketBits) - 1;
// A member that stands idle in a phase of fewer tickets may just have nothing to do.
constexpr int kTelling = 4;  // tickets a member

int available_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

Team::Open Team::Open::of(uint64_t word) {
  return {uint32_t(word >> 32), int(word >> kTicketBits & ((1 << kPhaseBits) - 1)),
          int(word & kMostTickets)};
}

uint64_t Team::Open::word() const {
  return uint64_t(number) << 32 | uint64_t(phase) << kTicketBits | uint64_t(tickets);
}

Team::Team(int size, int num_phases, Work work, void* context, Places places)
    : size_(size),
      work_(work),
      context_(context),
      places_(std::move(places)),
      spins_(available_cores() >= size ? kSpins : kCrowdedSpins),
      phases_(size_t(num_phases)),
      attendance_(size),
      stopwatch_(size, num_phases) {
  if (num_phases > 1 << kPhaseBits) throw std::runtime_error("a step has too many phases");
  start();
}

Team::~Team() {
  if (owner_ != getpid()) {
    shared_.release();  // a forked child: these threads are not here to be joined
    return;
  }
  dismiss();
}

void Team::start() {
  shared_ = std::make_unique<Shared>(size_);
  attendance_ = Attendance(size_);
  owner_ = getpid();
  try {
    for (int member = 1; member < size_; ++member) {
      shared_->threads.emplace_back(&Team::serve, this, shared_.get(), member);
    }
  } catch (const std::system_error& error) {
    dismiss();
    throw std::runtime_error("a thread of the team could not be started: " +
                             std::string(error.what()));
  } catch (...) {
    dismiss();
    throw;
  }
}

void Team::dismiss() {
  Shared& shared = *shared_;
  shared.stop.store(true, std::memory_order_relaxed);
  shared.present.store(size_, std::memory_order_release);
  shared.present.notify_all();
  shared.open.store(Open{Open::of(shared.open.load()).number + 1, 0, 0}.word());
  shared.open.notify_all();
  for (std::thread& thread : shared.threads) thread.join();
}

void Team::run(std::span<const int> chunks) {
  if (owner_ != getpid()) {
    shared_.release();
    start();
  }
  const int first = plan(chunks);
  if (first == kOver) return;
  const Bound bound(places_.empty() ? std::vector<int>() : places_.front());
  Shared& shared = *shared_;
  const Clock::time_point begun = Clock::now();
  const uint32_t last = Open::of(shared.open.load(std::memory_order_relaxed)).number;
  for (int member = 0; member < size_; ++member) shared.shares[size_t(member)].reset(last);
  if (stopwatch_.on()) stopwatch_.start();
  open(shared, last + 1, first);
  uint64_t seen = shared.open.load(std::memory_order_acquire);
  while (Open::of(seen).tickets > 0) {
    work(shared, 0, Open::of(seen));
    seen = wait(shared, 0, seen);
  }
  if (size_ > 1) choose_present(begun);
}

// Returns the first phase that has chunks.
int Team::plan(std::span<const int> chunks) {
  int next = kOver;
  for (int phase = int(chunks.size()) - 1; phase >= 0; --phase) {
    const int count = chunks[size_t(phase)];
    phases_[size_t(phase)] = {count, count / kMostTickets + 1, next};
    if (count > 0) next = phase;
  }
  return next;
}

void Team::choose_present(Clock::time_point begun) {
  const Clock::time_point now = Clock::now();
  const int before = attendance_.count();
  attendance_.record(std::chrono::nanoseconds(now.time_since_epoch()).count(),
                     std::chrono::nanoseconds(now - begun).count(),
                     shared_->stalled.exchange(0, std::memory_order_relaxed));
  if (attendance_.count() == before) return;
  shared_->present.store(attendance_.count(), std::memory_order_release);
  shared_->present.notify_all();
}

void Team::open(Shared& shared, uint32_t number, int phase) {
  const Open next = phase == kOver ? Open{number, 0, 0}
                                   : Open{number, phase, phases_[size_t(phase)].tickets()};
  shared.unfinished.store(next.tickets, std::memory_order_relaxed);
  shared.open.store(next.word(), std::memory_order_release);
  shared.open.notify_all();
}

void Team::serve(Shared* shared, int member) {
  if (!places_.empty()) bind_thread(places_[size_t(member)]);
  uint64_t seen = shared->open.load(std::memory_order_acquire);
  while (!shared->stop.load(std::memory_order_relaxed)) {
    const int present = shared->present.load(std::memory_order_acquire);
    if (member >= present) {
      shared->present.wait(present, std::memory_order_acquire);
      seen = shared->open.load(std::memory_order_acquire);
      continue;
    }
    if (Open::of(seen).tickets > 0) work(*shared, member, Open::of(seen));
    seen = wait(*shared, member, seen);
  }
}

void Team::work(Shared& shared, int member, const Open& open) {
  int finished = 0;
  for (int ticket; (ticket = take(shared, member, open)) != Share::kNone; ++finished) {
    const Phase& phase = phases_[size_t(open.phase)];
    const int first = ticket * phase.chunks_a_ticket;
    const int end = std::min(first + phase.chunks_a_ticket, phase.chunks);
    for (int chunk = first; chunk < end; ++chunk) work_(context_, member, open.phase, chunk);
  }
  if (finished > 0) finish(shared, finished, open);
}

// A ticket of the member's own share, then of the others' in turn.
int Team::take(Shared& shared, int member, const Open& open) const {
  for (int i = 0; i < size_; ++i) {
    const int owner = member + i < size_ ? member + i : member + i - size_;
    const int first = int(int64_t(open.tickets) * owner / size_);
    const int end = int(int64_t(open.tickets) * (owner + 1) / size_);
    const int ticket = shared.shares[size_t(owner)].take(open.number, first, end);
    if (ticket != Share::kNone) return ticket;
  }
  return Share::kNone;
}

// Until then the member's tickets are unfinished, and the step cannot end.
void Team::finish(Shared& shared, int tickets, const Open& done) {
  if (shared.unfinished.fetch_sub(tickets, std::memory_order_acq_rel) != tickets) return;
  if (stopwatch_.on()) stopwatch_.end_phase(done.phase);
  open(shared, done.number + 1, phases_[size_t(done.phase)].next);
}

// Returns what is open when it is no longer what was seen.
uint64_t Team::wait(Shared& shared, int member, uint64_t seen) {
  uint64_t found = shared.open.load(std::memory_order_acquire);
  if (found != seen) return found;
  const Open open = Open::of(seen);
  const int spins = open.tickets > 0 ? spins_ : kIdleSpins;
  const bool timed = open.tickets > 0 && stopwatch_.on();
  const Clock::time_point begun = timed ? Clock::now() : Clock::time_point();
  Clock::time_point stalled = Clock::time_point::max();
  for (int round = 0; found == seen; ++round) {
    if (round == spins && open.tickets >= kTelling * size_) stalled = Clock::now();
    if (backoff(round, spins)) shared.open.wait(seen, std::memory_order_acquire);
    found = shared.open.load(std::memory_order_acquire);
  }
  if (timed) stopwatch_.add_idle(member, open.phase, nanoseconds_since(begun));
  if (stalled != Clock::time_point::max()) {
    shared.stalled.fetch_add(nanoseconds_since(stalled), std::memory_order_relaxed);
  }
  return found;
}

}  // namespace pyrite
