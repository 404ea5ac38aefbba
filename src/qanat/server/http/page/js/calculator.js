/**
 * Arithmetic, for the tool that the page itself can answer. A parser of its own: what a model writes is never
 * evaluated as a program.
 *
 *   sum     = product (("+" | "-") product)*
 *   product = signed (("*" | "/" | "%") signed)*
 *   signed  = ("+" | "-") signed | power
 *   power   = atom (("^" | "**") signed)?
 *   atom    = number | name | name "(" sum ("," sum)* ")" | "(" sum ")"
 */

const LONGEST = 1000;
const CONSTANTS = new Map([["pi", Math.PI], ["e", Math.E]]);
const FUNCTIONS = new Map(
  ["sqrt", "abs", "round", "floor", "ceil", "exp", "log", "log2", "log10", "sin", "cos", "tan", "min", "max"].map((name) => [name, Math[name]]),
);
const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/%^(),]))/y;

/** What the model is told about it. */
export const CALCULATOR = {
  type: "function",
  function: {
    name: "calculator",
    description: "Evaluate an arithmetic expression and return the number.",
    parameters: {
      type: "object",
      properties: { expression: { type: "string", description: "For example 17 * (3 + 4)" } },
      required: ["expression"],
    },
  },
};

/**
 * The value of an expression.
 * @throws {Error} a sentence that the model can read
 */
export function calculate(expression) {
  if (expression.length > LONGEST) throw new Error(`an expression may have ${LONGEST} characters at most`);
  const tokens = split(expression);
  let at = 0;
  const take = (...symbols) => (symbols.includes(tokens[at]) ? tokens[at++] : null);

  function sum() {
    let value = product();
    for (let sign; (sign = take("+", "-")); ) value = sign === "+" ? value + product() : value - product();
    return value;
  }
  function product() {
    let value = signed();
    for (let sign; (sign = take("*", "/", "%")); ) {
      const other = signed();
      if (sign !== "*" && other === 0) throw new Error("division by zero");
      value = sign === "*" ? value * other : sign === "/" ? value / other : value % other;
    }
    return value;
  }
  function signed() {
    const sign = take("+", "-");
    return sign === "-" ? -signed() : sign ? signed() : power();
  }
  function power() {
    const base = atom();
    return take("^", "**") ? base ** signed() : base;
  }
  function atom() {
    const token = tokens[at++];
    if (typeof token === "number") return token;
    if (token === "(") return closed(sum());
    if (CONSTANTS.has(token)) return CONSTANTS.get(token);
    if (FUNCTIONS.has(token) && take("(")) {
      const values = [sum()];
      while (take(",")) values.push(sum());
      return closed(FUNCTIONS.get(token)(...values));
    }
    throw new Error(token === undefined ? "the expression ends too early" : `there is no ${JSON.stringify(token)} here`);
  }
  function closed(value) {
    if (!take(")")) throw new Error("a bracket is not closed");
    return value;
  }

  const value = sum();
  if (at < tokens.length) throw new Error(`there is ${JSON.stringify(tokens[at])} too much`);
  if (!Number.isFinite(value)) throw new Error("the result is no finite number");
  return value;
}

function split(expression) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  const end = expression.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(expression);
    if (!match) throw new Error(`${JSON.stringify(expression.slice(from).trim()[0])} cannot be read`);
    tokens.push(match[1] !== undefined ? Number(match[1]) : (match[2] ?? match[3]));
  }
  return tokens;
}
