// Tokenizes all built-in rules by VS Code's tokenizer, and tries the problem matchers on what `saturate rules check` says.
//   node tools/editor/check.js [SATURATE]      after: npm install --prefix build/editor vscode-textmate@9.2.0 vscode-oniguruma@2.0.1
const fs = require('fs'), os = require('os'), path = require('path'), {spawnSync} = require('child_process');
const root = path.join(__dirname, '../..'), modules = path.join(root, 'build/editor/node_modules');
const textmate = require(path.join(modules, 'vscode-textmate')), oniguruma = require(path.join(modules, 'vscode-oniguruma'));

const wrong = [];
const expect = (holds, text) => { if (!holds) wrong.push(text); };

function filesBelow(folder) {
  return fs.readdirSync(folder, {withFileTypes: true}).flatMap(
      entry => entry.isDirectory() ? filesBelow(path.join(folder, entry.name)) : entry.name.endsWith('.rules') ? [path.join(folder, entry.name)] : []);
}

async function grammar() {
  const wasm = fs.readFileSync(path.join(modules, 'vscode-oniguruma/release/onig.wasm')).buffer;
  const onigLib = oniguruma.loadWASM(wasm).then(() => ({
    createOnigScanner: patterns => new oniguruma.OnigScanner(patterns),
    createOnigString: text => new oniguruma.OnigString(text),
  }));
  const file = path.join(__dirname, 'syntaxes/rules.tmLanguage.json');
  const registry = new textmate.Registry({onigLib, loadGrammar: async () => textmate.parseRawGrammar(fs.readFileSync(file, 'utf8'), file)});
  return registry.loadGrammar('source.saturate-rules');
}

// The scope that a line's text has where `word` begins, its n-th place.
function scopeAt(tokens, column) {
  const token = tokens.find(t => t.startIndex <= column && column < t.endIndex);
  return token ? token.scopes[token.scopes.length - 1].replace('.saturate-rules', '') : '';
}

// What stands in a line without looking at the grammar: [column, scope].
function known(line) {
  const code = line.replace(/"[^"]*"/g, text => ' '.repeat(text.length)), comment = code.indexOf('#'), found = [];
  if (comment >= 0) found.push([comment, 'comment.line.number-sign']);
  const plain = comment >= 0 ? code.slice(0, comment) : code;
  const each = (regex, scope, group = 0) => {
    for (const m of plain.matchAll(regex)) found.push([m.index + (group ? m[0].indexOf(m[group], 1) : 0), scope]);
  };
  each(/^(?:rule|operator|def) +([\w.]+)/g, 'entity.name.function', 1);
  each(/^(?:rule|operator|def|forall|optional|opset)\b/g, 'keyword.control');
  each(/^  (?:where|let|example|counterexample)\b/g, 'keyword.control');
  each(/<?=>/g, 'keyword.operator.arrow');
  each(/@\w+/g, 'variable.parameter');
  each(/\b(?:saturate|com)\.\w+/g, 'support.class');
  return found.map(([column, scope]) => [scope === 'keyword.control' ? column + plain.slice(column).search(/\S/) : column, scope]);
}

async function tokenizeAll() {
  const language = await grammar();
  let lines = 0, places = 0, plain = 0, characters = 0;
  for (const file of filesBelow(path.join(root, 'rules/library'))) {
    let state = textmate.INITIAL;
    fs.readFileSync(file, 'utf8').split('\n').forEach((line, number) => {
      const result = language.tokenizeLine(line, state);
      state = result.ruleStack;
      ++lines;
      for (const token of result.tokens) {
        const text = line.slice(token.startIndex, token.endIndex).replace(/[\s(){}\[\],;:.]/g, '');
        characters += text.length;
        if (token.scopes.length === 1) plain += text.length;
      }
      for (const [column, scope] of known(line)) {
        ++places;
        const got = scopeAt(result.tokens, column);
        expect(got === scope, `${path.relative(root, file)}:${number + 1}:${column + 1}: ${scope} expected, ${got || 'nothing'} found`);
      }
    });
  }
  expect(lines > 3000 && places > 3000, `only ${lines} lines and ${places} places were looked at`);
  expect(plain === 0, `${plain} of ${characters} characters have no scope`);
  console.log(`${lines} lines, ${places} places have the scope that they should, ${plain} of ${characters} characters have none`);
}

// What a problem matcher makes of an output, as VS Code applies it.
function problems(matcher, output) {
  const patterns = [].concat(matcher.pattern), lines = output.split('\n'), found = [];
  for (let at = 0; at < lines.length; ++at) {
    const problem = {};
    const all = patterns.every((pattern, k) => {
      const m = new RegExp(pattern.regexp).exec(lines[at + k] ?? '');
      for (const key of ['file', 'line', 'column', 'severity', 'message']) {
        if (m && pattern[key]) problem[key] = m[pattern[key]];
      }
      return m;
    });
    if (all) found.push(problem);
  }
  return found;
}

function tryMatchers(saturate) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'rules-'));
  const matchers = JSON.parse(fs.readFileSync(path.join(__dirname, 'package.json'))).contributes.problemMatchers;
  const check = (text, words) => {
    const file = path.join(folder, 'my.rules');
    fs.writeFileSync(file, text);
    const done = spawnSync(saturate, ['rules', 'check', file, ...words], {encoding: 'utf8'});
    return [file, matchers.map(m => problems(m, done.stdout + done.stderr))];
  };
  const differs = 'opset "" 20\n\nrule a (X) => (Y)\n  Relu (Relu (X)) => Sigmoid (X)\n  example X = float[2,3]\n';
  for (const [words, which] of [[[], 0], [['--json'], 1]]) {
    const [file, found] = check(differs, words);
    const first = found[which][0] ?? {};
    expect(first.file === file && first.line === '5' && first.severity === 'error' && /sides differ/.test(first.message),
           `matcher ${matchers[which].name}: ${JSON.stringify(first)}`);
  }
  const [file, found] = check(differs.replace('Sigmoid', 'Sigmoidd'), ['--json']);
  expect(found[0].length === 1 && found[0][0].file === file && found[0][0].line === '4', `a name that is not known: ${JSON.stringify(found)}`);
  fs.rmSync(folder, {recursive: true});
  console.log('both problem matchers find what saturate says');
}

tokenizeAll().then(() => {
  tryMatchers(process.argv[2] ?? path.join(root, 'build/release/tools/saturate'));
  wrong.slice(0, 20).forEach(text => console.error(text));
  if (wrong.length) console.error(`${wrong.length} wrong`);
  process.exit(wrong.length ? 1 : 0);
});
