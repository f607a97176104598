#include "extract/solve/ilp.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace saturate {
namespace {

constexpr double kNoBound = IntegerProgram::kNoBound;

struct Row {
  std::vector<std::pair<int, double>> terms;
  double lower = 0, upper = 0;
};

struct Program {
  std::vector<double> objective, lower, upper;
  std::vector<Row> rows;
};

// What a program minimizes, and how many refused operators its choices may have.
struct Goal {
  double Price::*part = &Price::cost;
  double most_refused = kInfinity;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const Presolved& s, Goal goal) : s_(s), p_(s.problem), goal_(goal) {}

  Program build(const Price& best) {
    Program out;
    const double scale = objective_scale(best.*goal_.part);
    for (const Price& price : p_.cost) out.objective.push_back(price.*goal_.part * scale);
    out.lower.assign(p_.num_nodes(), 0);
    out.upper.assign(p_.num_nodes(), 1);
    std::vector<char> root(p_.num_classes(), 0);
    for (std::uint32_t r : p_.roots) root[r] = 1;
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c) {
      if (p_.node_begin[c + 1] - p_.node_begin[c] == 1 && root[c])
        out.lower[p_.node_begin[c]] = 1;
      else if (root[c] || p_.node_begin[c + 1] - p_.node_begin[c] > 1)
        out.rows.push_back(one_of(c, root[c]));
    }
    needs(out);
    if (goal_.most_refused < kInfinity) out.rows.push_back(refused_at_most(goal_.most_refused));
    return out;
  }

 private:
  // The solver's tolerances are absolute: costs that are whole numbers stay (it uses that), others are brought to a common size.
  double objective_scale(double best_cost) const {
    const bool whole = std::all_of(p_.cost.begin(), p_.cost.end(), [this](const Price& price) {
      const double c = price.*goal_.part;
      return c == std::floor(c) && c < 1e6;
    });
    return whole || best_cost <= 0 ? 1 : 1e5 / best_cost;
  }

  Row refused_at_most(double most) const {
    Row row;
    for (std::uint32_t n = 0; n < p_.num_nodes(); ++n)
      if (p_.cost[n].refused > 0) row.terms.emplace_back(static_cast<int>(n), p_.cost[n].refused);
    row.lower = -kNoBound;
    row.upper = most;
    return row;
  }

  Row one_of(std::uint32_t c, bool exactly) const {
    Row row;
    for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n) row.terms.emplace_back(static_cast<int>(n), 1);
    row.lower = exactly ? 1 : -kNoBound;
    row.upper = 1;
    return row;
  }

  // Nodes of c that need k, for every k.
  std::map<std::uint32_t, std::vector<std::uint32_t>> users(std::uint32_t c) const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> out;
    for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n)
      for (std::uint32_t k : p_.children_of(n)) out[k].push_back(n);
    return out;
  }

  void needs(Program& out) const {
    std::vector<std::uint32_t> size(s_.component.empty() ? 0 : *std::max_element(s_.component.begin(), s_.component.end()) + 1, 0);
    std::vector<int> level(p_.num_classes(), -1);
    for (std::uint32_t c : s_.component) ++size[c];
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c)
      if (const std::uint32_t members = size[s_.component[c]]; members > 1) {
        level[c] = static_cast<int>(out.objective.size());
        out.objective.push_back(0);
        out.lower.push_back(0);
        out.upper.push_back(members - 1);
      }
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c) {
      const auto by_child = users(c);
      for (const auto& [k, nodes] : by_child) {
        Row row = covered(nodes, k);
        if (s_.component[c] == s_.component[k]) {
          const double members = size[s_.component[c]];
          Row order;
          for (std::uint32_t n : nodes) order.terms.emplace_back(static_cast<int>(n), members);
          order.terms.emplace_back(level[k], 1);
          order.terms.emplace_back(level[c], -1);
          order.lower = -kNoBound;
          order.upper = members - 1;
          out.rows.push_back(std::move(order));
          for (std::uint32_t m = p_.node_begin[k]; m < p_.node_begin[k + 1]; ++m) {  // of c needing k and k needing c only one
            const auto kids = p_.children_of(m);
            if (std::find(kids.begin(), kids.end(), c) != kids.end())
              std::erase_if(row.terms, [&](const auto& t) { return t.first == static_cast<int>(m); });
          }
        }
        out.rows.push_back(std::move(row));
      }
      for (std::uint32_t k : s_.needed[c]) {
        const auto it = by_child.find(k);
        if (it != by_child.end() && it->second.size() == p_.node_begin[c + 1] - p_.node_begin[c]) continue;
        std::vector<std::uint32_t> all;
        for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n) all.push_back(n);
        out.rows.push_back(covered(all, k));
      }
    }
  }

  // One of `nodes` only with one of k's.
  Row covered(const std::vector<std::uint32_t>& nodes, std::uint32_t k) const {
    Row row;
    for (std::uint32_t n : nodes) row.terms.emplace_back(static_cast<int>(n), 1);
    for (std::uint32_t m = p_.node_begin[k]; m < p_.node_begin[k + 1]; ++m) row.terms.emplace_back(static_cast<int>(m), -1);
    row.lower = -kNoBound;
    row.upper = 0;
    return row;
  }

  const Presolved& s_;
  const ExtractionProblem& p_;
  const Goal goal_;
};

// The rows, column by column.
IntegerProgram by_columns(Program program) {
  IntegerProgram out;
  out.objective = std::move(program.objective);
  out.lower = std::move(program.lower);
  out.upper = std::move(program.upper);
  out.begin.assign(out.columns() + 1, 0);
  for (const Row& row : program.rows)
    for (const auto& [column, factor] : row.terms) ++out.begin[static_cast<std::size_t>(column) + 1];
  for (std::size_t i = 1; i < out.begin.size(); ++i) out.begin[i] += out.begin[i - 1];
  out.row.resize(static_cast<std::size_t>(out.begin.back()));
  out.factor.resize(out.row.size());
  std::vector<int> next(out.begin.begin(), out.begin.end() - 1);
  for (std::size_t r = 0; r < program.rows.size(); ++r) {
    out.row_lower.push_back(program.rows[r].lower);
    out.row_upper.push_back(program.rows[r].upper);
    for (const auto& [column, factor] : program.rows[r].terms) {
      const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(column)]++);
      out.row[at] = static_cast<int>(r);
      out.factor[at] = factor;
    }
  }
  return out;
}

// The nodes that the solution chooses, followed from the roots.
NodeChoice read_choice(const ExtractionProblem& p, const std::vector<double>& solution) {
  NodeChoice choice(p.num_classes(), kUnchosen);
  std::vector<std::uint32_t> stack = p.roots;
  while (!stack.empty()) {
    const std::uint32_t c = stack.back();
    stack.pop_back();
    if (choice[c] != kUnchosen) continue;
    for (std::uint32_t n = p.node_begin[c]; n < p.node_begin[c + 1] && choice[c] == kUnchosen; ++n)
      if (solution[n] > 0.5) choice[c] = n;
    if (choice[c] == kUnchosen) return choice;
    const auto children = p.children_of(choice[c]);
    stack.insert(stack.end(), children.begin(), children.end());
  }
  return choice;
}

IlpResult solve(const IntegerSolver& solver, const Presolved& s, const NodeChoice& warm, const Goal& goal, double seconds) {
  const ExtractionProblem& p = s.problem;
  IlpResult result{warm, evaluate_choice(p, warm).dag, false};
  IntegerProgram program = by_columns(ProgramBuilder(s, goal).build(result.cost));
  program.whole = p.num_nodes();
  for (const std::uint32_t n : warm)
    if (n != kUnchosen) program.start.push_back(static_cast<int>(n));
  const IntegerSolution solution = solver.solve(program, seconds);
  result.proved = solution.proved;
  if (solution.columns.empty()) return result;
  NodeChoice found = read_choice(p, solution.columns);
  const ChoiceValue value = evaluate_choice(p, found);
  if (value.wrong.empty() && value.dag < result.cost) result.choice = std::move(found), result.cost = value.dag;
  return result;
}

}  // namespace

std::size_t ilp_rows(const Presolved& s) { return ProgramBuilder(s, {}).build(1).rows.size(); }

bool ilp_available() { return !integer_solvers().empty(); }

IlpResult solve_ilp(const Presolved& s, const NodeChoice& warm, double seconds, const IntegerSolver* solver) {
  IlpResult result{warm, evaluate_choice(s.problem, warm).dag, false};
  if (!solver && !ilp_available()) return result;
  const IntegerSolver& by = solver ? *solver : integer_solvers().front();
  const auto& prices = s.problem.cost;
  if (std::none_of(prices.begin(), prices.end(), [](const Price& p) { return p.refused > 0; })) return solve(by, s, warm, {}, seconds);
  bool fewest = result.cost.refused == 0;
  if (!fewest) {
    result = solve(by, s, warm, {.part = &Price::refused}, seconds / 2);
    fewest = result.proved;
    seconds /= 2;
  }
  result = solve(by, s, result.choice, {.most_refused = result.cost.refused}, seconds);
  result.proved = result.proved && fewest;
  return result;
}

}  // namespace saturate
