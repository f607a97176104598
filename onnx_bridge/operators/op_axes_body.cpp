// The axes of what several nodes make together: those of a function's body.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "onnx_bridge/operators/op_axes.h"

namespace saturate {
namespace {

// Axes of values that are linked are one class, by union and find.
class BodyAxes {
 public:
  BodyAxes(const BodyOfOperator& body, const ViewOfNode& view) : body_(body), view_(view) {}

  std::optional<OpAxes> find() && {
    for (const std::string& input : body_.inputs) is_made_[input] = true;
    for (const Node& node : body_.nodes)
      if (!see(node)) return std::nullopt;
    std::map<std::size_t, AxisLink> links;
    for (const bool output : {false, true}) {
      const auto names = output ? body_.outputs : body_.inputs;
      for (std::size_t i = 0; i < names.size(); ++i)
        for (const auto& [place, at] : places_of(names[i])) {
          AxisLink& link = links[root(at)];
          (output ? link.outputs : link.inputs).push_back({{static_cast<int>(i), output}, place});
        }
    }
    OpAxes out;
    for (auto& [at, link] : links) {
      const Kind& kind = kinds_[at];
      link.apart = kind.apart;
      if (!kind.broken && !twice(at) && !link.inputs.empty() && (!link.apart || !link.outputs.empty()))
        out.links.push_back(std::move(link));
    }
    return out;
  }

 private:
  struct Kind {
    bool apart = true, broken = false;
  };
  using Place = std::pair<std::string, int>;

  bool see(const Node& node) {
    const std::unique_ptr<OpView> view = view_(node);
    const std::optional<OpAxes> found = view ? axes_of(*view) : std::nullopt;
    for (const bool output : {false, true}) {
      const std::vector<std::string>& names = output ? node.outputs : node.inputs;
      for (std::size_t i = 0; i < names.size(); ++i) {
        const Port port{static_cast<int>(i), output};
        if (names[i].empty() || !view || !view->has(port)) continue;
        const auto rank = view->rank(port);
        if (!rank) return false;
        const bool from_outside = !output && !is_made_[names[i]];
        for (int k = 0; k < *rank; ++k) {
          Kind& kind = kinds_[root(index({names[i], k}))];
          kind.broken = kind.broken || !found || from_outside || !linked(*found, port, k);
        }
        if (output) is_made_[names[i]] = true;
      }
    }
    for (const AxisLink& link : found ? found->links : std::vector<AxisLink>()) join(node, *view, *found, link);
    return true;
  }

  static bool linked(const OpAxes& found, Port port, int axis) {
    const AxisLink* link = found.link(port, axis);
    return link && !link->of(port)->one;
  }

  void join(const Node& node, const OpView& view, const OpAxes& found, const AxisLink& link) {
    std::optional<std::size_t> all;
    const auto name = [&](Port port) { return (port.output ? node.outputs : node.inputs)[static_cast<std::size_t>(port.index)]; };
    for (const auto* side : {&link.inputs, &link.outputs})
      for (const AxisAt& at : *side) {
        if (at.one) continue;
        const std::size_t one = root(index({name(at.port), at.axis}));
        if (!all) all = one;
        unite(*all, one);
        all = root(one);
      }
    if (all && (!link.apart || (found.sizes && keeps_size(view, *found.sizes, link)))) kinds_[*all].apart = false;
  }

  // Whether the sizes in a body are numbers, which do not change with what is taken.
  static bool keeps_size(const OpView& view, int sizes, const AxisLink& link) {
    const auto numbers = view.ints(sizes);
    return std::any_of(link.outputs.begin(), link.outputs.end(), [&](const AxisAt& at) {
      const std::int64_t number =
          numbers && at.axis < static_cast<int>(numbers->size()) ? (*numbers)[static_cast<std::size_t>(at.axis)] : 1;
      return number > 0;
    });
  }

  bool twice(std::size_t at) {
    std::map<std::string, int> count;
    for (const auto& [place, i] : index_)
      if (root(i) == at && ++count[place.first] > 1) return true;
    return false;
  }

  std::vector<std::pair<int, std::size_t>> places_of(const std::string& value) const {
    std::vector<std::pair<int, std::size_t>> out;
    for (const auto& [place, i] : index_)
      if (place.first == value) out.emplace_back(place.second, i);
    return out;
  }
  std::size_t index(const Place& place) {
    const auto [it, is_new] = index_.emplace(place, parents_.size());
    if (is_new) {
      parents_.push_back(it->second);
      kinds_.emplace_back();
    }
    return it->second;
  }
  std::size_t root(std::size_t at) const {
    while (parents_[at] != at) at = parents_[at];
    return at;
  }
  void unite(std::size_t a, std::size_t b) {
    if (a == b) return;
    parents_[b] = a;
    kinds_[a].apart = kinds_[a].apart && kinds_[b].apart;
    kinds_[a].broken = kinds_[a].broken || kinds_[b].broken;
  }

  const BodyOfOperator& body_;
  const ViewOfNode& view_;
  std::map<std::string, bool> is_made_;
  std::map<Place, std::size_t> index_;
  std::vector<std::size_t> parents_;
  std::vector<Kind> kinds_;
};

}  // namespace

std::optional<OpAxes> axes_of_body(const BodyOfOperator& body, const ViewOfNode& view) { return BodyAxes(body, view).find(); }

}  // namespace saturate
