// Which recurrence a region computes: its borders are given roles by their shapes, and what is left open is decided, and all of it proven,
// by running the region and the operator on the same drawn numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <tuple>

#include "onnx_bridge/convert/op_key.h"
#include "rules/recurrence/recurrence.h"

namespace saturate::native {
namespace {

constexpr double kTolerance = 1e-8;
// Rounds in which a region must equal the operator, and after which no more are drawn.
constexpr std::size_t kLeast = 2, kEnough = 5;
// Lengths, and sizes of all else that is open. A region that is unrolled for some number of chunks can be run at the lengths that have so
// many alone: at others the model itself cannot.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 16> kDrawn{{{5, 2},
                                                                        {65, 2},
                                                                        {1, 3},
                                                                        {130, 1},
                                                                        {64, 1},
                                                                        {7, 1},
                                                                        {100, 1},
                                                                        {150, 2},
                                                                        {200, 1},
                                                                        {256, 1},
                                                                        {300, 1},
                                                                        {320, 2},
                                                                        {500, 1},
                                                                        {512, 2},
                                                                        {1000, 1},
                                                                        {1024, 1}}};
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;

enum class Role : std::uint8_t { kQuery, kKey, kValue, kState, kBeta, kDecay };

struct Option {
  Role role;
  Layout layout;
};
struct Pick {
  Place place;
  std::vector<Option> options;
};
// In which order the places of a border are tried.
enum class From : std::uint8_t { kFar, kNear };

// The value seen as [batch, time, heads, size]: where an element lies.
struct Strides {
  std::array<std::int64_t, 4> by{};
  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const { return b * by[0] + t * by[1] + h * by[2]; }
};
Strides strides_of(Layout layout, std::int64_t time, std::int64_t heads, std::int64_t size) {
  if (layout == Layout::kTimeFirst) return {{time * heads * size, heads * size, size, 1}};
  return {{time * heads * size, size, time * size, 1}};
}

struct Sizes {
  std::int64_t batch = 0, time = 0, heads = 0, key = 0, value = 0;
};

bool close(double a, double b, double largest) { return std::abs(a - b) <= kTolerance * largest; }

class Prover {
 public:
  Prover(const OnnxEGraph& g, const Region& region, std::string* why) : g_(g), region_(region), why_(why) {}

  std::optional<Recurrence> prove() {
    for (const Reading& reading : region_.readings) {
      inside_ = &reading.inside;
      runs_.clear();
      if (auto found = prove(reading.borders)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Recurrence> prove(const std::vector<Border>& borders) {
    if (std::count_if(borders.begin(), borders.end(), [](const Border& b) { return b.decays; }) != 1)
      return lacks("what goes into its Exps is not one value");
    if (borders.size() < 4) return lacks("fewer than four values enter it");
    const auto decay = std::find_if(borders.begin(), borders.end(), [](const Border& b) { return b.decays; });
    for (const From from : {From::kFar, From::kNear})
      for (const Place& place : ordered(decay->places, from))
        for (const Layout layout : {Layout::kTimeFirst, Layout::kHeadsFirst})
          if (auto found = place.factor == 1 ? with_decay(borders, place.id, layout, from) : std::nullopt) return found;
    return std::nullopt;
  }

  std::nullopt_t lacks(std::string_view what) const {
    if (why_) *why_ = what;
    return std::nullopt;
  }

  static std::vector<Place> ordered(std::vector<Place> places, From from) {
    if (from == From::kNear) std::reverse(places.begin(), places.end());
    return places;
  }

  const Dims* shape(Id id) const {
    const Facts& f = g_.facts(id);
    return f.kind == Facts::Kind::kTensor && f.dtype == DType::kFloat && f.shape ? &*f.shape : nullptr;
  }
  bool equal(Dim a, Dim b) const { return g_.dims().equal(a, b); }
  bool is_number(Dim d) const { return g_.dims().value(d).value_or(0) > 0; }

  // What a place may be, by its shape.
  std::vector<Option> options_of(const Place& place) const {
    const Dims* s = shape(place.id);
    std::vector<Option> out;
    if (!s || (s->size() != 3 && s->size() != 4) || !equal((*s)[0], made_.batch)) return out;
    for (const Layout layout : {Layout::kTimeFirst, Layout::kHeadsFirst}) {
      const bool time_first = layout == Layout::kTimeFirst;
      if (!equal((*s)[time_first ? 1 : 2], made_.time) || !equal((*s)[time_first ? 2 : 1], made_.heads)) continue;
      if (s->size() == 3) {
        if (place.factor == 1) out.push_back({Role::kBeta, layout});
      } else if (is_number(s->back())) {
        out.push_back({Role::kQuery, layout});
        if (place.factor == 1) out.push_back({Role::kKey, layout});
        if (place.factor == 1) out.push_back({Role::kValue, layout});
      }
    }
    if (place.factor == 1 && s->size() == 4 && equal((*s)[1], made_.heads) && is_number((*s)[2]) && is_number((*s)[3]))
      out.push_back({Role::kState, Layout::kTimeFirst});
    return out;
  }

  std::optional<Recurrence> with_decay(const std::vector<Border>& borders, Id place, Layout layout, From from) {
    const Dims* s = shape(place);
    if (!s || s->size() != 3) return std::nullopt;
    made_ = {};
    made_.batch = (*s)[0], made_.time = (*s)[layout == Layout::kTimeFirst ? 1 : 2],
    made_.heads = (*s)[layout == Layout::kTimeFirst ? 2 : 1];
    if (!is_number(made_.heads)) return std::nullopt;
    made_.decay = {place, layout};
    picks_.clear(), rounds_.clear();
    for (const Border& b : borders) {
      if (b.decays) continue;
      Pick pick;
      for (const Place& place : ordered(b.places, from)) {
        pick = {place, options_of(place)};
        if (!pick.options.empty()) break;
      }
      if (pick.options.empty()) return lacks("the shapes of what enters it do not fit each other");
      picks_.push_back(std::move(pick));
    }
    return assign(0);
  }

  // Gives a role to each border from number `at` on.
  std::optional<Recurrence> assign(std::size_t at) {
    if (at == picks_.size()) return try_roles();
    for (const Option& o : picks_[at].options) {
      if (taken(o.role)) continue;
      slot(o.role) = {picks_[at].place.id, o.layout, picks_[at].place.factor};
      if (auto found = assign(at + 1)) return found;
      slot(o.role) = {};
    }
    return std::nullopt;
  }
  bool taken(Role role) { return slot(role).id != kNone; }
  Placed& slot(Role role) {
    switch (role) {
      case Role::kQuery:
        return made_.query;
      case Role::kKey:
        return made_.key;
      case Role::kValue:
        return made_.value;
      case Role::kState:
        return made_.past_state;
      case Role::kBeta:
        return made_.beta;
      case Role::kDecay:
        break;
    }
    return made_.decay;
  }

  std::optional<Recurrence> try_roles() {
    if (!taken(Role::kQuery) || !taken(Role::kKey) || !taken(Role::kValue)) return std::nullopt;
    const Dims &q = *shape(made_.query.id), &k = *shape(made_.key.id), &v = *shape(made_.value.id);
    if (!equal(q.back(), k.back())) return std::nullopt;
    made_.key_size = k.back(), made_.value_size = v.back();
    if (made_.past_state.id != kNone) {
      const Dims& s = *shape(made_.past_state.id);
      if (!equal(s[2], made_.key_size) || !equal(s[3], made_.value_size)) return std::nullopt;
    }
    made_.results.clear(), made_.present_states.clear();
    std::size_t equal_in = 0;
    for (std::size_t round = 0; round < rounds().size() && equal_in < kEnough; ++round) {
      const Outcome outcome = compare(round, equal_in == 0);
      if (outcome == Outcome::kDifferent) return lacks("on drawn numbers it computes something else than the gated delta rule");
      equal_in += outcome == Outcome::kEqual ? 1 : 0;
    }
    if (equal_in < kLeast) return lacks("it cannot be run on drawn numbers");
    return made_;
  }

  // ---- runs

  // Sizes of symbols, by round. Where all sizes are numbers, other numbers are drawn.
  const std::vector<std::map<std::string, std::int64_t>>& rounds() {
    if (!rounds_.empty()) return rounds_;
    const DimTable& dims = g_.dims();
    const auto at = [&](std::int64_t time, std::int64_t other) {
      std::map<std::string, std::int64_t> sizes, more;
      for (const std::string& s : dims.symbols()) sizes[s] = other;
      more = sizes;
      for (auto& [symbol, size] : sizes) {
        more[symbol] = other + 1;
        if (dims.evaluate(made_.time, more) != dims.evaluate(made_.time, sizes)) size = time;
        more[symbol] = size;
      }
      return sizes;
    };
    for (const auto& [time, other] : kDrawn)
      if (auto sizes = at(time, other); std::find(rounds_.begin(), rounds_.end(), sizes) == rounds_.end())
        rounds_.push_back(std::move(sizes));
    const bool is_static = is_number(made_.batch) && is_number(made_.time);
    if (is_static) rounds_ = {{}, {}};
    return rounds_;
  }

  std::optional<Sizes> sizes_in(const std::map<std::string, std::int64_t>& symbols) const {
    const auto number = [&](Dim d) { return g_.dims().evaluate(d, symbols).value_or(-1); };
    const Sizes s{number(made_.batch), number(made_.time), number(made_.heads), number(made_.key_size), number(made_.value_size)};
    return s.batch > 0 && s.time > 0 && s.heads > 0 && s.key > 0 && s.value > 0 ? std::optional(s) : std::nullopt;
  }

  std::optional<Tensor> drawn(Id id, const std::map<std::string, std::int64_t>& symbols, Draw& draw, bool decays) const {
    Shape dims;
    for (const Dim d : *shape(id)) {
      const auto n = g_.dims().evaluate(d, symbols);
      if (!n) return std::nullopt;
      dims.push_back(*n);
    }
    if (!checked_elements(dims)) return std::nullopt;
    Tensor out(DType::kDouble, dims);
    const double scale = dims.size() == 4 ? std::sqrt(1.5 / static_cast<double>(std::max<std::int64_t>(dims.back(), 1))) : 1;
    double* to = out.mutable_as<double>();
    for (std::int64_t i = 0; i < out.size(); ++i)
      to[i] = decays ? draw.between(-0.7, 0.1) : dims.size() == 4 ? draw.between(-scale, scale) : draw.between(-0.4, 1.4);
    return out;
  }

  // Whether a value may have the shape of a result or a state, as far as it is known.
  bool may_be_made(Id id) const {
    const Dims* s = shape(id);
    const auto fits = [&](Dim a, Dim b) { return !g_.dims().differ(a, b); };
    if (!s || s->size() != 4 || !fits((*s)[0], made_.batch)) return false;
    const auto is_size = [&](Dim d) {
      return std::any_of(picks_.begin(), picks_.end(), [&](const Pick& p) { return fits(shape(p.place.id)->back(), d); });
    };
    const bool timed =
        (fits((*s)[1], made_.time) && fits((*s)[2], made_.heads)) || (fits((*s)[1], made_.heads) && fits((*s)[2], made_.time));
    return is_size((*s)[3]) && (timed || (fits((*s)[1], made_.heads) && is_size((*s)[2])));
  }

  // The region's values on drawn numbers, once for each round and choice of places.
  const Run* run_of(std::size_t round) {
    std::vector<Id> places{made_.decay.id};
    for (const Pick& p : picks_) places.push_back(p.place.id);
    const auto [it, added] = runs_.try_emplace({round, rounds()[round], places});
    Run& run = it->second;
    if (!added) return run.values.empty() ? nullptr : &run;
    run.sizes = rounds()[round];
    Draw draw(17 + round);
    for (const Id id : places) {
      auto value = drawn(id, run.sizes, draw, id == made_.decay.id);
      if (!value) return nullptr;
      run.given[g_.egraph().find(id)] = *std::move(value);
    }
    std::vector<Id> wanted;
    for (const Id id : *inside_)
      if (may_be_made(id) && !run.given.contains(id)) wanted.push_back(id);
    if (!run_region(g_, wanted, run)) run.values.clear();
    return run.values.empty() ? nullptr : &run;
  }

  const double* given(const Run& run, Id id) const { return run.given.at(g_.egraph().find(id)).data<double>(); }

  enum class Outcome : std::uint8_t { kEqual, kDifferent, kNotRun };
  Outcome compare(std::size_t round, bool first) {
    const auto n = sizes_in(rounds()[round]);
    if (!n || n->batch * n->time * n->heads * std::max(n->key, n->value) > kMostElements) return Outcome::kNotRun;
    const Run* run = run_of(round);
    if (!run) return Outcome::kNotRun;
    if (first && !seems(*run, *n)) return Outcome::kDifferent;
    const auto made = operator_on(*run, *n);
    if (!made) return Outcome::kNotRun;
    keep_equal(*run, *n, (*made)[0], (*made)[1], first);
    return made_.results.empty() ? Outcome::kDifferent : Outcome::kEqual;
  }

  // Whether some value of the region is the result for the first head of the first instance: a look that spares most full runs.
  bool seems(const Run& run, const Sizes& n) const {
    std::vector<double> state(static_cast<std::size_t>(n.key * n.value), 0.0), out(static_cast<std::size_t>(n.time * n.value), 0.0);
    if (made_.past_state.id != kNone) std::memcpy(state.data(), given(run, made_.past_state.id), state.size() * sizeof(double));
    const Strides q = strides_of(made_.query.layout, n.time, n.heads, n.key), k = strides_of(made_.key.layout, n.time, n.heads, n.key),
                  v = strides_of(made_.value.layout, n.time, n.heads, n.value), g = strides_of(made_.decay.layout, n.time, n.heads, 1),
                  b = strides_of(made_.beta.layout, n.time, n.heads, 1);
    for (std::int64_t t = 0; t < n.time; ++t) {
      const double* key = given(run, made_.key.id) + k.at(0, t, 0);
      const double* query = given(run, made_.query.id) + q.at(0, t, 0);
      const double decay = std::exp(given(run, made_.decay.id)[g.at(0, t, 0)]);
      const double beta = made_.is_delta() ? given(run, made_.beta.id)[b.at(0, t, 0)] : 1;
      for (std::int64_t j = 0; j < n.value; ++j) {
        double seen = 0, sum = 0;
        for (std::int64_t i = 0; i < n.key; ++i) seen += (state[static_cast<std::size_t>(i * n.value + j)] *= decay) * key[i];
        const double more = beta * (given(run, made_.value.id)[v.at(0, t, 0) + j] - (made_.is_delta() ? seen : 0));
        for (std::int64_t i = 0; i < n.key; ++i) sum += (state[static_cast<std::size_t>(i * n.value + j)] += key[i] * more) * query[i];
        out[static_cast<std::size_t>(t * n.value + j)] = made_.query.factor * sum;
      }
    }
    const double largest = magnitude(out);
    return largest > 0 && std::any_of(run.values.begin(), run.values.end(), [&](const auto& value) {
             return !layouts_of(value.second, n, [&](Layout layout) {
                       const Strides s = strides_of(layout, n.time, n.heads, n.value);
                       for (std::int64_t t = 0; t < n.time; ++t)
                         for (std::int64_t j = 0; j < n.value; ++j)
                           if (!close(value.second.template data<double>()[s.at(0, t, 0) + j],
                                      out[static_cast<std::size_t>(t * n.value + j)], largest))
                             return false;
                       return true;
                     }).empty();
           });
  }

  // The layouts of a result in which a tensor passes a test.
  template <typename Test>
  std::vector<Layout> layouts_of(const Tensor& t, const Sizes& n, const Test& test) const {
    std::vector<Layout> out;
    if (t.dtype() != DType::kDouble) return out;
    if (t.dims() == Shape{n.batch, n.time, n.heads, n.value} && test(Layout::kTimeFirst)) out.push_back(Layout::kTimeFirst);
    if (t.dims() == Shape{n.batch, n.heads, n.time, n.value} && test(Layout::kHeadsFirst)) out.push_back(Layout::kHeadsFirst);
    return out;
  }

  // [batch, time, heads * size] of a drawn value.
  Tensor packed(const Run& run, Placed p, const Sizes& n, std::int64_t size) const {
    Tensor out(DType::kDouble, {n.batch, n.time, n.heads * size});
    const Strides from = strides_of(p.layout, n.time, n.heads, size);
    double* to = out.mutable_as<double>();
    for (std::int64_t b = 0; b < n.batch; ++b)
      for (std::int64_t t = 0; t < n.time; ++t)
        for (std::int64_t h = 0; h < n.heads; ++h, to += size)
          for (std::int64_t i = 0; i < size; ++i) to[i] = p.factor * given(run, p.id)[from.at(b, t, h) + i];
    return out;
  }

  // Result and state of the operator itself.
  std::optional<std::array<Tensor, 2>> operator_on(const Run& run, const Sizes& n) const {
    Node call;
    call.domain = "com.microsoft";
    call.op_type = "LinearAttention";
    call.attributes = {Attribute::of("q_num_heads", n.heads), Attribute::of("kv_num_heads", n.heads), Attribute::of("scale", 1.0F),
                       Attribute::of("update_rule", std::string(made_.is_delta() ? "gated_delta" : "gated"))};
    std::vector<Value> inputs{packed(run, made_.query, n, n.key), packed(run, made_.key, n, n.key), packed(run, made_.value, n, n.value),
                              Value(), packed(run, made_.decay, n, 1)};
    if (made_.past_state.id != kNone) inputs[3] = run.given.at(g_.egraph().find(made_.past_state.id));
    if (made_.is_delta()) inputs.push_back(packed(run, made_.beta, n, 1));
    call.inputs.assign(inputs.size(), "x");
    call.outputs = {"y", "s"};
    auto out = g_.evaluator().evaluate(call, 1, inputs);
    if (!out.ok() || !(*out)[0].is_tensor() || !(*out)[1].is_tensor()) return std::nullopt;
    return std::array{(*out)[0].tensor(), (*out)[1].tensor()};
  }

  // Of the first round: the values that equal the operator's. Of others: those that still do.
  void keep_equal(const Run& run, const Sizes& n, const Tensor& y, const Tensor& state, bool first) {
    const Strides wanted = strides_of(Layout::kTimeFirst, n.time, n.heads, n.value);
    const double largest = magnitude(y.span<double>()), most = magnitude(state.span<double>());
    std::vector<Placed> results;
    std::vector<Id> states;
    for (const auto& [id, value] : run.values) {
      for (const Layout layout : layouts_of(value, n, [&](Layout l) {
             const Strides from = strides_of(l, n.time, n.heads, n.value);
             for (std::int64_t b = 0; b < n.batch; ++b)
               for (std::int64_t t = 0; t < n.time; ++t)
                 for (std::int64_t h = 0; h < n.heads; ++h)
                   for (std::int64_t j = 0; j < n.value; ++j)
                     if (!close(value.template data<double>()[from.at(b, t, h) + j], y.data<double>()[wanted.at(b, t, h) + j], largest))
                       return false;
             return true;
           }))
        results.push_back({id, layout, 1});
      if (value.dtype() == DType::kDouble && value.dims() == state.dims() &&
          std::equal(state.span<double>().begin(), state.span<double>().end(), value.span<double>().begin(),
                     [&](double a, double b) { return close(a, b, most); }))
        states.push_back(id);
    }
    const auto in = [](const auto& all, auto same) { return std::any_of(all.begin(), all.end(), same); };
    if (first) {
      made_.results = results, made_.present_states = states;
    } else {
      std::erase_if(made_.results,
                    [&](const Placed& p) { return !in(results, [&](const Placed& r) { return r.id == p.id && r.layout == p.layout; }); });
      std::erase_if(made_.present_states, [&](Id id) { return !in(states, [&](Id s) { return s == id; }); });
    }
  }

  static double magnitude(std::span<const double> numbers) {
    double most = 0;
    for (const double x : numbers) most = std::max(most, std::abs(x));
    return most;
  }

  const OnnxEGraph& g_;
  const Region& region_;
  std::string* why_;
  const std::vector<Id>* inside_ = nullptr;  // of the reading
  Recurrence made_;
  std::vector<Pick> picks_;
  std::vector<std::map<std::string, std::int64_t>> rounds_;
  std::map<std::tuple<std::size_t, std::map<std::string, std::int64_t>, std::vector<Id>>, Run> runs_;
};

}  // namespace

std::optional<Recurrence> recurrence_of(const OnnxEGraph& g, const Region& region, std::string* why) {
  return Prover(g, region, why).prove();
}

}  // namespace saturate::native
