// TfIdfVectorizer (ONNX Operators): counts of n-grams with skips, of integers or strings.
#include <algorithm>
#include <map>

#include "kernels/tensor/util.h"
#include "kernels/text/util.h"

namespace saturate {
namespace {

// A trie of the pool's n-grams over word numbers; `column` is where the n-gram that ends here is counted, -1: none ends here.
struct Trie {
  struct Node {
    std::map<std::int64_t, std::size_t> next;
    std::int64_t column = -1;
  };
  std::vector<Node> nodes = std::vector<Node>(1);

  std::size_t child(std::size_t node, std::int64_t word) {
    const auto [it, added] = nodes[node].next.try_emplace(word, nodes.size());
    const std::size_t at = it->second;
    if (added) nodes.emplace_back();
    return at;
  }
};

struct NgramPool {
  Trie trie;
  std::map<std::string, std::int64_t> words;  // numbers of the strings
  std::int64_t columns = 0;
  std::int64_t shortest = 1, longest = 1, skips = 0;
};

absl::StatusOr<NgramPool> read_pool(const KernelContext& ctx) {
  NgramPool pool;
  pool.shortest = ctx.attr_i("min_gram_length", 1);
  pool.longest = ctx.attr_i("max_gram_length", 1);
  pool.skips = ctx.attr_i("max_skip_count", 0);
  const std::vector<std::int64_t> counts = ctx.attr_ints("ngram_counts"), indexes = ctx.attr_ints("ngram_indexes");
  std::vector<std::int64_t> items = ctx.attr_ints("pool_int64s");
  for (const std::string& s : ctx.attr_strings("pool_strings"))
    items.push_back(pool.words.try_emplace(s, static_cast<std::int64_t>(pool.words.size())).first->second);
  if (pool.shortest < 1 || pool.longest < pool.shortest || pool.skips < 0 || indexes.empty())
    return ctx.invalid("the n-gram attributes do not fit");
  for (std::int64_t i : indexes) {
    if (i < 0 || i > (std::int64_t{1} << 40)) return ctx.invalid("an n-gram index is out of range");
    pool.columns = std::max(pool.columns, i + 1);
  }
  const auto total = static_cast<std::int64_t>(items.size());
  std::size_t gram = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::int64_t begin = counts[k], end = k + 1 < counts.size() ? counts[k + 1] : total, length = static_cast<std::int64_t>(k) + 1;
    if (begin < 0 || begin > end || end > total || (end - begin) % length != 0) return ctx.invalid("ngram_counts does not fit the pool");
    for (std::int64_t at = begin; at < end; at += length, ++gram) {
      if (gram >= indexes.size()) return ctx.invalid("ngram_indexes is too short");
      if (length < pool.shortest || length > pool.longest) continue;
      std::size_t node = 0;
      for (std::int64_t i = at; i < at + length; ++i) node = pool.trie.child(node, items[static_cast<std::size_t>(i)]);
      pool.trie.nodes[node].column = indexes[gram];
    }
  }
  return pool;
}

void count_row(const NgramPool& pool, std::span<const std::int64_t> row, double* counts) {
  const auto n = static_cast<std::int64_t>(row.size());
  for (std::int64_t skip = 1; skip <= pool.skips + 1; ++skip) {
    if (skip > 1 && skip >= n) break;
    for (std::int64_t start = 0; start < n; ++start) {
      std::size_t node = 0;
      std::int64_t length = 1;
      for (std::int64_t at = start; at < n && length <= pool.longest; at += skip, ++length) {
        const auto& next = pool.trie.nodes[node].next;
        const auto it = next.find(row[static_cast<std::size_t>(at)]);
        if (it == next.end()) break;
        node = it->second;
        const std::int64_t column = pool.trie.nodes[node].column;
        // Single words are the same for every skip: counted once.
        if (column >= 0 && (length > 1 || skip == 1)) counts[column] += 1;
      }
    }
  }
}

Outputs tf_idf_vectorizer(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() > 2) return ctx.invalid("a vector or matrix is expected");
  const auto pool = read_pool(ctx);
  if (!pool.ok()) return pool.status();
  std::vector<std::int64_t> words;
  if (x.dtype() == DType::kString) {
    for (const std::string& s : x.string_data()) {
      const auto it = pool->words.find(s);
      words.push_back(it == pool->words.end() ? -1 : it->second);
    }
  } else {
    auto given = int_values(ctx, x);
    if (!given.ok()) return given.status();
    words = *std::move(given);
  }
  const std::int64_t rows = x.rank() == 2 ? x.dims()[0] : 1, width = x.rank() == 2 ? x.dims()[1] : x.size();
  const Shape dims = x.rank() == 2 ? Shape{rows, pool->columns} : Shape{pool->columns};
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> y(static_cast<std::size_t>(rows * pool->columns), 0.0);
  for (std::int64_t r = 0; r < rows; ++r)
    count_row(*pool, std::span(words).subspan(static_cast<std::size_t>(r * width), static_cast<std::size_t>(width)),
              y.data() + r * pool->columns);
  const std::string mode = ctx.attr_s("mode", "TF");
  const std::vector<float> weights = ctx.attr_floats("weights");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return ctx.invalid("the mode is not known");
  if (!weights.empty() && static_cast<std::int64_t>(weights.size()) < pool->columns) return ctx.invalid("weights is too short");
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (mode == "IDF") y[i] = y[i] > 0 ? 1 : 0;
    if (mode != "TF" && !weights.empty()) y[i] *= static_cast<double>(weights[i % static_cast<std::size_t>(pool->columns)]);
  }
  return one_output(from_doubles(ctx, DType::kFloat, dims, y));
}

}  // namespace

void register_string_tfidf(Registry& registry) { registry.add("", "TfIdfVectorizer", tf_idf_vectorizer); }

}  // namespace saturate
