//! Runs a text workload with egg 0.11 and mimalloc: the other side of bench/speed/compare_egg.py.
//! usage: egg_workloads FILE simple|backoff ITERATIONS
//! Prints one JSON object an iteration (nodes, classes), and at the end the wall time of the run.
use egg::*;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// A language has inline children and two kinds of leaves.
macro_rules! language {
    ($name:ident { $($text:literal = $variant:ident($children:ty)),* $(,)? }) => {
        define_language! { enum $name { $($text = $variant($children),)* Num(i64), Sym(Symbol), } }
        impl Leaves for $name {
            fn number(&self) -> Option<i64> { match self { $name::Num(n) => Some(*n), _ => None } }
            fn symbol(&self) -> bool { matches!(self, $name::Sym(_)) }
        }
    };
}
trait Leaves {
    fn number(&self) -> Option<i64>;
    fn symbol(&self) -> bool;
}
language!(Math {
    "+" = Add([Id; 2]), "-" = Sub([Id; 2]), "*" = Mul([Id; 2]), "/" = Div([Id; 2]), "pow" = Pow([Id; 2]), "d" = D([Id; 2]), "i" = I([Id; 2]),
    "ln" = Ln(Id), "sqrt" = Sqrt(Id), "sin" = Sin(Id), "cos" = Cos(Id),
});
language!(Prop { "&" = And([Id; 2]), "|" = Or([Id; 2]), "->" = Implies([Id; 2]), "~" = Not(Id) });
language!(Tensor {
    "matmul" = MatMul([Id; 2]), "add" = Add([Id; 2]), "sub" = Sub([Id; 2]), "mul" = Mul([Id; 2]), "div" = Div([Id; 2]), "scale" = Scale([Id; 2]),
    "reshape" = Reshape([Id; 2]), "transpose" = Transpose([Id; 2]), "concat" = Concat([Id; 3]), "gemm" = Gemm([Id; 3]),
    "layernorm" = LayerNorm([Id; 4]), "sdpa" = Sdpa([Id; 4]), "neg" = Neg(Id), "exp" = Exp(Id), "sqrt" = Sqrt(Id), "recip" = Recip(Id),
    "pow2" = Pow2(Id), "erf" = Erf(Id), "rsum" = RSum(Id), "rmean" = RMean(Id), "rmax" = RMax(Id), "softmax" = Softmax(Id), "gelu" = Gelu(Id),
});

enum Expr {
    Atom(String),
    List(Vec<Expr>),
}
impl Expr {
    fn read(text: &str) -> Vec<Expr> {
        let mut open = vec![vec![]];
        for line in text.lines() {
            let code = line.split(';').next().unwrap_or("");
            for word in code.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
                match word {
                    "(" => open.push(vec![]),
                    ")" => {
                        let done = open.pop().expect("balanced parentheses");
                        open.last_mut().expect("balanced parentheses").push(Expr::List(done));
                    }
                    _ => open.last_mut().unwrap().push(Expr::Atom(word.into())),
                }
            }
        }
        open.pop().unwrap()
    }
    fn atom(&self) -> &str {
        if let Expr::Atom(a) = self { a } else { panic!("a word was expected") }
    }
    fn items(&self) -> &[Expr] {
        if let Expr::List(l) = self { l } else { panic!("a list was expected") }
    }
    fn text(&self) -> String {
        match self {
            Expr::Atom(a) => a.clone(),
            Expr::List(l) => format!("({})", l.iter().map(Expr::text).collect::<Vec<_>>().join(" ")),
        }
    }
}

/// A pattern whose conditions are decided while searching, on the clean e-graph: what is applied doesn't depend on the order of rules.
struct Guarded<L> {
    pattern: Pattern<L>,
    conditions: Vec<(String, Vec<Var>)>,
}
impl<L: Language + Leaves> Guarded<L> {
    fn holds(&self, g: &EGraph<L, ()>, subst: &Subst) -> bool {
        self.conditions.iter().all(|(name, vars)| {
            let nodes = &g[subst[vars[0]]].nodes;
            match name.as_str() {
                "not-zero" => nodes.iter().all(|n| n.number() != Some(0)),
                "is-num" => nodes.iter().any(|n| n.number().is_some()),
                "is-sym" => nodes.iter().any(|n| n.symbol()),
                "num-or-other" => {
                    g.find(subst[vars[0]]) != g.find(subst[vars[1]]) && nodes.iter().any(|n| n.symbol() || n.number().is_some())
                }
                _ => panic!("unknown condition {name}"),
            }
        })
    }
}
impl<L: Language + Leaves> Searcher<L, ()> for Guarded<L> {
    fn search_eclass_with_limit(&self, g: &EGraph<L, ()>, class: Id, _limit: usize) -> Option<SearchMatches<'_, L>> {
        let mut found = self.pattern.search_eclass_with_limit(g, class, usize::MAX)?;
        found.substs.retain(|s| self.holds(g, s));
        (!found.substs.is_empty()).then_some(found)
    }
    fn search_with_limit(&self, g: &EGraph<L, ()>, _limit: usize) -> Vec<SearchMatches<'_, L>> {
        let mut all = self.pattern.search_with_limit(g, usize::MAX);
        all.iter_mut().for_each(|found| found.substs.retain(|s| self.holds(g, s)));
        all.retain(|found| !found.substs.is_empty());
        all
    }
    fn vars(&self) -> Vec<Var> {
        <Pattern<L> as Searcher<L, ()>>::vars(&self.pattern)
    }
}

struct Counts {
    nodes: usize,
    classes: usize,
}
impl<L: Language> IterationData<L, ()> for Counts {
    fn make(runner: &Runner<L, (), Self>) -> Self {
        Counts { nodes: runner.egraph.total_number_of_nodes(), classes: runner.egraph.number_of_classes() }
    }
}

fn add<L: Language + FromOp>(g: &mut EGraph<L, ()>, names: &HashMap<String, Id>, e: &Expr) -> Id {
    let (op, children) = match e {
        Expr::Atom(a) if a.starts_with('$') => return names[a],
        Expr::Atom(a) => (a.as_str(), vec![]),
        Expr::List(l) => (l[0].atom(), l[1..].iter().map(|c| add(g, names, c)).collect()),
    };
    g.add(L::from_op(op, children).ok().expect("an operator of the language"))
}

fn run<L>(forms: &[Expr], scheduler: &str, iterations: usize)
where
    L: Language + FromOp + Display + Debug + Leaves + Send + Sync + 'static,
{
    let mut g: EGraph<L, ()> = EGraph::default();
    let mut names = HashMap::new();
    let mut rules: Vec<Rewrite<L, ()>> = vec![];
    for form in forms.iter().map(Expr::items) {
        match form[0].atom() {
            "rule" => {
                let pattern = |e: &Expr| e.text().parse::<Pattern<L>>().ok().expect("a pattern");
                let (left, right) = (pattern(&form[2]), pattern(&form[3]));
                let condition = |c: &Expr| {
                    let words = c.items();
                    (words[0].atom().to_string(), words[1..].iter().map(|v| v.atom().parse().unwrap()).collect())
                };
                let conditions: Vec<_> = form[4..].iter().map(condition).collect();
                rules.push(if conditions.is_empty() {
                    Rewrite::new(form[1].atom(), left, right).unwrap()
                } else {
                    Rewrite::new(form[1].atom(), Guarded { pattern: left, conditions }, right).unwrap()
                });
            }
            "let" => {
                let id = add(&mut g, &names, &form[2]);
                names.insert(form[1].atom().to_string(), id);
            }
            "root" => {
                add(&mut g, &names, &form[1]);
            }
            _ => {}
        }
    }
    g.rebuild();
    let runner = Runner::<L, (), Counts>::new(()).with_egraph(g).with_iter_limit(iterations).with_node_limit(usize::MAX).with_time_limit(Duration::MAX);
    let begin = Instant::now();
    let runner = match scheduler {
        "simple" => runner.with_scheduler(SimpleScheduler),
        "backoff" => runner.with_scheduler(BackoffScheduler::default()),
        _ => panic!("unknown scheduler {scheduler}"),
    }
    .run(&rules);
    let wall = begin.elapsed().as_secs_f64();
    for (i, it) in runner.iterations.iter().enumerate() {
        println!("{{\"iteration\":{},\"nodes\":{},\"classes\":{}}}", i + 1, it.data.nodes, it.data.classes);
    }
    let mut sizes = BTreeMap::new();
    runner.egraph.classes().for_each(|class| *sizes.entry(class.len()).or_insert(0usize) += 1);
    let text: String = sizes.iter().map(|(size, count)| format!("{size}:{count},")).collect();
    let hash = text.bytes().fold(1469598103934665603u64, |h, b| (h ^ b as u64).wrapping_mul(0x100000001b3));
    println!("{{\"class_sizes_fnv1a64\":\"{hash:016x}\",\"wall_s\":{wall:.6}}}");
    std::process::exit(0); // freeing the e-graph is not part of the comparison
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, scheduler, iterations] = arguments.as_slice() else { panic!("usage: egg_workloads FILE simple|backoff ITERATIONS") };
    let forms = Expr::read(&std::fs::read_to_string(file).expect("a readable file"));
    let iterations = iterations.parse().expect("a number of iterations");
    let language = forms.iter().map(Expr::items).find(|f| f[0].atom() == "lang").expect("(lang NAME)")[1].atom();
    match language {
        "math" => run::<Math>(&forms, scheduler, iterations),
        "prop" => run::<Prop>(&forms, scheduler, iterations),
        "tensor" => run::<Tensor>(&forms, scheduler, iterations),
        other => panic!("unknown language {other}"),
    }
}
