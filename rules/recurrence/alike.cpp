// Regions that are spelled alike: layers of one model. What was proven of one holds of the others.
#include <algorithm>
#include <set>

#include "rules/recurrence/recurrence.h"

namespace saturate::native {
namespace {

enum Mark : std::uint64_t { kOperator = 1, kKnown, kEnters };

class Speller {
 public:
  Speller(const OnnxEGraph& g, const Region& region) : g_(g), e_(g.egraph()) {
    for (const Reading& reading : region.readings)
      for (const Border& b : reading.borders) ends_.insert(e_.find(b.places.front().id));
    for (const Reading& reading : region.readings)
      for (const Id id : reading.inside) spell(id);
    out_.text.push_back(region.readings.size());
    for (const Reading& reading : region.readings)
      for (const Border& b : reading.borders) {
        spell(b.places.front().id);
        out_.text.push_back(b.places.size() * 2 + (b.decays ? 1 : 0));
      }
  }
  Spelling take() { return std::move(out_); }

 private:
  // A class after all that it is made of; without recursion, for chains are long.
  void spell(Id target) {
    std::vector<std::pair<Id, bool>> open{{e_.find(target), false}};
    while (!open.empty()) {
      const auto [id, ready] = open.back();
      open.pop_back();
      if (numbers_.contains(id)) continue;
      const auto made = inner(id) ? maker_of(g_, id) : std::nullopt;
      if (made && !ready) {
        open.emplace_back(id, true);
        for (const Id c : made->children) open.emplace_back(e_.find(c), false);
        continue;
      }
      numbers_.emplace(id, out_.ids.size());
      out_.ids.push_back(id);
      write(id, made);
    }
  }

  bool inner(Id id) const {
    const Facts& f = g_.facts(id);
    return !ends_.contains(id) && !f.constant && !f.content && f.kind != Facts::Kind::kAbsent;
  }

  void write(Id id, const std::optional<Maker>& made) {
    if (!made) {
      const Facts& f = g_.facts(id);
      const bool enters = ends_.contains(id);
      out_.text.push_back(enters ? kEnters : kKnown);
      if (!enters) out_.text.push_back(id);  // equal constants, and equal sizes, are one class
      if (enters && f.shape)
        for (const Dim d : *f.shape) out_.text.push_back(g_.dims().canonical(d).id);
      out_.text.push_back(static_cast<std::uint64_t>(f.dtype));
      return;
    }
    out_.text.insert(out_.text.end(),
                     {kOperator, *g_.find_op(*made->key), static_cast<std::uint64_t>(made->output), made->children.size()});
    for (const Id c : made->children) out_.text.push_back(numbers_.at(e_.find(c)));
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  std::set<Id> ends_;
  std::map<Id, std::size_t> numbers_;
  Spelling out_;
};

}  // namespace

Spelling spelling_of(const OnnxEGraph& g, const Region& region) { return Speller(g, region).take(); }

std::optional<Recurrence> moved(const OnnxEGraph& g, Recurrence r, const Spelling& from, const Spelling& to) {
  bool all = true;
  const auto move = [&](Id& id) {
    if (id == kNone) return;
    const auto it = std::find(from.ids.begin(), from.ids.end(), g.egraph().find(id));
    all = all && it != from.ids.end();
    if (all) id = to.ids[static_cast<std::size_t>(it - from.ids.begin())];
  };
  for (Placed* p : {&r.query, &r.key, &r.value, &r.decay, &r.beta, &r.past_state}) move(p->id);
  for (Placed& p : r.results) move(p.id);
  for (Id& id : r.present_states) move(id);
  return all ? std::optional(std::move(r)) : std::nullopt;
}

}  // namespace saturate::native
