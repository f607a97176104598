#include "tools/transform/precision/mixed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/inputs/widened.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/graph/names.h"

namespace saturate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostSplits = 200;   // choices that are measured to find what errs
constexpr std::size_t kMostLeftOut = 100;  // ... and to leave out what is not needed
constexpr double kSmallShare = 1.0 / 8;    // of the error allowed: a group that errs no more is not split

// Operators next to each other, by place in the list of those that would convert.
struct Group {
  std::size_t begin = 0, end = 0;
  double error = 0;  // of the results where they alone work in half precision
  double price = 0;
};

class Search {
 public:
  Search(const MixedRequest& request, PrecisionOptions options, HalfWeights& weights)
      : request_(request), options_(std::move(options)), weights_(weights) {}

  absl::StatusOr<Mixed> run() {
    const Precision all = convert({});
    if (absl::Status s = prepare(all); !s.ok()) return s;
    const double without = measure({});
    std::vector<std::size_t> every(operators_.size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = i;
    std::set<std::size_t> floats;
    double error = without;
    if (status_.ok() && without > request_.max_error) {
      error = measure({every.begin(), every.end()});
      if (status_.ok() && error > request_.max_error)
        return absl::FailedPreconditionError(fmt::format("the error is {:.2g} even where all operators stay in float", error));
      if (status_.ok()) std::tie(floats, error) = chosen(without, error);
    }
    if (!status_.ok()) return status_;
    return told(floats, error, without);
  }

 private:
  absl::Status prepare(const Precision& all) {
    for (const std::string& made : all.converted) index_.emplace(made, operators_.size()), operators_.push_back(made);
    prices_.resize(operators_.size());
    for (const Node& node : request_.model.graph.nodes)
      if (const auto it = index_.find(label(node)); it != index_.end()) prices_[it->second] = price_of(node);
    auto session = open(request_.original);
    if (!session.ok()) return session.status();
    for (const Inputs& given : request_.ranges.inputs) {
      Inputs wide = given, narrow = given;
      for (auto& [name, value] : wide)
        if (all.singles.contains(name)) {
          narrow[name] = Value(weights_.half_of(value.tensor()));
          value = Value(widened(narrow[name].tensor()));
        }
      auto wanted = session->run(wide);
      if (!wanted.ok()) return wanted.status();
      inputs_.push_back(std::move(narrow));
      wanted_.push_back(*std::move(wanted));
    }
    return absl::OkStatus();
  }

  double price_of(const Node& node) const {
    std::size_t bytes = 0;
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const std::string& value : *list) {
        const auto seen = request_.ranges.bytes.find(value);
        const Initializer* weight = seen == request_.ranges.bytes.end() ? find_named(request_.model.graph.initializers, value) : nullptr;
        if (seen != request_.ranges.bytes.end()) bytes += seen->second;
        if (weight && weight->tensor.dtype() == DType::kFloat) bytes += weight->tensor.bytes().size();
      }
    return static_cast<double>(bytes);
  }

  absl::StatusOr<Session> open(const Model& model) const {
    SessionOptions options;
    options.threads = 0;
    options.prepare = false;
    options.keep_results = false;
    options.cancel = request_.cancel;
    return Session::create(model, options);
  }

  Precision convert(const std::set<std::size_t>& floats) {
    options_.floats = names_of(floats);
    return with_precision(request_.model, request_.types, options_, weights_);
  }

  std::set<std::string> names_of(const std::set<std::size_t>& floats) const {
    std::set<std::string> names;
    for (const std::size_t i : floats) names.insert(operators_[i]);
    return names;
  }

  // The error where these stay in float; once a run has failed, nothing is run any more.
  double measure(const std::set<std::size_t>& floats) {
    if (!status_.ok()) return 0;
    ++measured_;
    const Precision made = convert(floats);
    auto session = open(made.model);
    if (!(status_ = session.status()).ok()) return 0;
    double worst = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto got = session->run(inputs_[i]);
      if (!(status_ = got.status()).ok()) return 0;
      for (std::size_t j = 0; j < wanted_[i].size(); ++j) worst = std::max(worst, error_of(wanted_[i][j], (*got)[j]));
    }
    return worst;
  }

  Group group_of(std::size_t begin, std::size_t end, double error) const {
    Group group{begin, end, error, 0};
    for (std::size_t i = begin; i < end; ++i) group.price += prices_[i];
    return group;
  }

  double measure_alone(std::size_t begin, std::size_t end) {
    std::set<std::size_t> floats;
    for (std::size_t i = 0; i < operators_.size(); ++i)
      if (i < begin || i >= end) floats.insert(i);
    return measure(floats);
  }

  // Groups that together are all operators; the largest error is looked into first.
  std::vector<Group> groups(double error_of_all) {
    std::vector<Group> found{group_of(0, operators_.size(), error_of_all)};
    while (measured_ < kMostSplits) {
      const auto splits = [](const Group& g) { return g.end - g.begin > 1 ? g.error : -1; };
      const auto worst =
          std::max_element(found.begin(), found.end(), [&](const Group& a, const Group& b) { return splits(a) < splits(b); });
      if (splits(*worst) <= request_.max_error * kSmallShare) break;
      const std::size_t begin = worst->begin, middle = (worst->begin + worst->end) / 2, end = worst->end;
      *worst = group_of(begin, middle, measure_alone(begin, middle));
      found.push_back(group_of(middle, end, measure_alone(middle, end)));
    }
    return found;
  }

  static std::set<std::size_t> members(const std::vector<Group>& groups, std::size_t count) {
    std::set<std::size_t> out;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = groups[i].begin; j < groups[i].end; ++j) out.insert(j);
    return out;
  }

  // What stays, and the error with it. `error_of_none`: where none is in half precision.
  std::pair<std::set<std::size_t>, double> chosen(double error_of_all, double error_of_none) {
    std::vector<Group> found = groups(error_of_all);
    std::sort(found.begin(), found.end(), [](const Group& a, const Group& b) {
      const double left = a.error * std::max(1.0, b.price), right = b.error * std::max(1.0, a.price);
      return left != right ? left > right : std::tie(a.price, a.begin) < std::tie(b.price, b.begin);
    });
    std::size_t few = 0, enough = found.size();
    double error = error_of_none;
    while (enough - few > 1) {
      const std::size_t middle = (few + enough) / 2;
      const double there = measure(members(found, middle));
      if (there <= request_.max_error) {
        enough = middle;
        error = there;
      } else {
        few = middle;
      }
    }
    std::set<std::size_t> floats = members(found, enough);
    found.resize(enough);
    std::stable_sort(found.begin(), found.end(), [](const Group& a, const Group& b) { return a.price > b.price; });
    const std::size_t most = measured_ + kMostLeftOut;
    for (const Group& group : found) leave_out(group, most, floats, error);
    return {std::move(floats), error};
  }

  // The group, or parts of it, where the rest is enough.
  void leave_out(const Group& group, std::size_t most, std::set<std::size_t>& floats, double& error) {
    if (measured_ >= most || !status_.ok()) return;
    std::set<std::size_t> rest = floats;
    for (std::size_t i = group.begin; i < group.end; ++i) rest.erase(i);
    if (const double there = measure(rest); there <= request_.max_error) {
      floats = std::move(rest);
      error = there;
      return;
    }
    if (group.end - group.begin < 2) return;
    const std::size_t middle = (group.begin + group.end) / 2;
    leave_out(group_of(group.begin, middle, 0), most, floats, error);
    leave_out(group_of(middle, group.end, 0), most, floats, error);
  }

  Mixed told(const std::set<std::size_t>& floats, double error, double without) const {
    Mixed out{names_of(floats), error, without, 0, measured_};
    double all = 0;
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      all += prices_[i];
      if (floats.contains(i)) out.share += prices_[i];
    }
    out.share = all > 0 ? out.share / all : 0;
    return out;
  }

  const MixedRequest& request_;
  PrecisionOptions options_;
  HalfWeights& weights_;
  std::vector<std::string> operators_;  // that would convert, by name of their first output, in order
  std::map<std::string, std::size_t> index_;
  std::vector<double> prices_;
  std::vector<Inputs> inputs_;  // of the results
  std::vector<std::vector<Value>> wanted_;
  std::size_t measured_ = 0;
  absl::Status status_;
};

}  // namespace

double error_of(const Value& wanted, const Value& got) {
  if (!wanted.is_tensor() || wanted.tensor().dtype() == DType::kString) return 0;
  if (!got.is_tensor() || got.tensor().dims() != wanted.tensor().dims()) return kInfinity;
  double largest = 0, apart = 0;
  for (std::int64_t i = 0; i < wanted.tensor().size(); ++i) {
    const auto a = element_as_double(wanted.tensor(), i), b = element_as_double(got.tensor(), i);
    if (!a || !std::isfinite(*a)) continue;
    largest = std::max(largest, std::abs(*a));
    apart = std::max(apart, b && std::isfinite(*b) ? std::abs(*a - *b) : kInfinity);
  }
  return largest > 0 ? apart / largest : apart;
}

absl::StatusOr<Mixed> floats_for_error(const MixedRequest& request, PrecisionOptions options, HalfWeights& weights) {
  auto found = Search(request, std::move(options), weights).run();
  if (found.ok() || absl::IsCancelled(found.status())) return found;
  return absl::FailedPreconditionError(found.status().message());
}

}  // namespace saturate
