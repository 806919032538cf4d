"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const LINE = 19, EVERY = 25;
let step = 0, folded = false, lit = new Set();

function put(parent, tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}
function indent(line) { return line.length - line.trimStart().length; }

class Recording { // steps on a payload, and the payload after any of them
  constructor(from, steps, message) {
    Object.assign(this, from, { steps, message });
    this.first = { lines: from.lines.split("\n"), ops: from.ops.split(" ") };
    this.kept = new Map([[0, this.first]]);
  }
  after(number) {
    let near = number;
    while (!this.kept.has(near)) near--;
    let text = this.kept.get(near);
    while (near < number) {
      const rows = this.rows(near + 1, text).filter(row => row[2] !== "del");
      text = { lines: rows.map(row => row[0]), ops: rows.map(row => row[1]) };
      near++;
      if (near % EVERY === 0) this.kept.set(near, text);
    }
    return text;
  }
  rows(number, before) { // lines with op and change of a step
    if (!number) return this.first.lines.map((line, i) => [line, this.first.ops[i], ""]);
    before = before || this.after(number - 1);
    const rows = [];
    let from = 0;
    for (const [start, removed, count, added, names] of this.steps[number - 1].changes) {
      for (; from < start; from++) rows.push([before.lines[from], before.ops[from], ""]);
      for (; from < start + removed; from++) rows.push([before.lines[from], before.ops[from], "del"]);
      if (count) { const ops = names.split(" "); added.split("\n").forEach((line, i) => rows.push([line, ops[i], "add"])); }
    }
    for (; from < before.lines.length; from++) rows.push([before.lines[from], before.ops[from], ""]);
    return rows;
  }
  handles(number) {
    const known = new Map();
    for (const each of this.steps.slice(0, number)) for (const [frame, name, state, param, ...ops] of each.handles) {
      const key = frame + " " + name;
      known.delete(key);
      if (state !== "out of scope") known.set(key, { name, state, param, ops });
    }
    return [...known.values()].reverse();
  }
  costs(number) {
    const known = new Map(this.nests.map(nest => [nest[0], nest]));
    let order = this.order;
    for (const each of this.steps.slice(0, number)) {
      for (const nest of each.nests) known.set(nest[0], nest);
      if (each.order.length) order = each.order;
    }
    return order.map(op => known.get(op));
  }
  maker(op) { return this.steps.findIndex(each => each.origins.some(origin => origin.split(" ")[0] === op)) + 1; }
}
function foldLoops(rows) {
  const result = [];
  for (let i = 0; i < rows.length; i++) {
    result.push(rows[i]);
    if (!/(scf|affine)\.(for|parallel)/.test(rows[i][0]) || !rows[i][0].endsWith("{")) continue;
    const depth = indent(rows[i][0]);
    let end = i + 1, changed = false;
    while (end < rows.length && indent(rows[end][0]) > depth) { changed = changed || rows[end][2] !== ""; end++; }
    if (!changed) { result[result.length - 1] = [rows[i][0] + " … " + (end - i - 1) + " lines", rows[i][1], rows[i][2]]; i = end - 1; }
  }
  return result;
}
class Pane { // a payload, of which only the lines in sight are elements
  constructor(box) {
    this.box = box;
    this.all = put(box, "div", "", "all");
    this.seen = put(this.all, "pre", "", "seen");
    this.view = [];
    this.found = -1;
    box.addEventListener("scroll", () => this.paint());
    this.seen.addEventListener("mouseover", event => hover(event.target.dataset.op || ""));
  }
  show(rows) {
    this.view = folded ? foldLoops(rows) : rows;
    this.found = -1;
    const change = this.view.findIndex(each => each[2]);
    this.all.style.height = this.view.length * LINE + "px";
    if (change >= 0) this.to(change);
    this.paint();
  }
  toOp(ops) { // where none of the ops is in sight already
    const line = this.view.findIndex(each => each[1] !== "-" && ops.includes(each[1])), from = this.box.scrollTop;
    if (line >= 0 && (line * LINE < from || line * LINE > from + this.box.clientHeight - LINE)) this.to(line);
  }
  to(line) { this.box.scrollTop = Math.max(0, line * LINE - 80); }
  paint() {
    const begin = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 10);
    const end = Math.min(this.view.length, begin + Math.ceil(this.box.clientHeight / LINE) + 20);
    this.all.style.height = this.view.length * LINE + "px";
    this.seen.style.top = begin * LINE + "px";
    this.seen.replaceChildren();
    for (let i = begin; i < end; i++) {
      const [line, op, kind] = this.view[i];
      const row = put(this.seen, "div", line || " ", kind);
      if (lit.has(op)) row.classList.add("lit");
      if (i === this.found) row.classList.add("found");
      row.dataset.op = op;
    }
  }
  search(text) {
    for (let i = 1; i <= this.view.length; i++) {
      const line = (this.found + i + this.view.length) % this.view.length;
      if (this.view[line][0].includes(text)) { this.found = line; this.to(line); this.paint(); return true; }
    }
    this.found = -1;
    this.paint();
    return false;
  }
}
const base = new Recording(data, data.steps, data.message);
const other = data.other ? new Recording(data.other, data.other.steps, data.other.message) : null;
let recording = base;
const pane = new Pane(at("payload")), beside = other ? new Pane(at("beside")) : null;
if (other) { at("second").hidden = false; document.body.classList.add("two"); }

function signature(each) {
  const text = each.full.split(/\s+/).filter(word => !/^\(?%/.test(word)).join(" ");
  return each.op + "\n" + text + "\n" + (data.lines === data.other.lines ? JSON.stringify(each.changes) : "");
}
const differs = other ? (() => {
  const most = Math.max(base.steps.length, other.steps.length);
  for (let i = 0; i < most; i++) if (!base.steps[i] || !other.steps[i] || signature(base.steps[i]) !== signature(other.steps[i])) return i + 1;
  return 0;
})() : 0;

function light(ops) { lit = new Set(ops); pane.paint(); if (beside) beside.paint(); }
function lights(item, ops) {
  item.tabIndex = 0;
  item.dataset.ops = ops.join(" ");
  for (const event of ["mouseenter", "focus"]) item.addEventListener(event, () => light(ops));
  for (const event of ["mouseleave", "blur"]) item.addEventListener(event, () => light([]));
}
function listHandles() {
  const list = at("handles");
  list.replaceChildren();
  const known = recording.handles(step), invalid = known.filter(handle => handle.state === "invalidated");
  for (const handle of [...known.filter(handle => !invalid.includes(handle)), ...invalid]) {
    const item = put(list, "li", "", handle.state === "invalidated" ? "invalid" : "");
    put(item, "b", handle.name);
    const what = handle.ops.map(op => handle.param ? op : "%" + op).join(", ") || "nothing";
    put(item, "span", (handle.param ? " = " : " → ") + what + (handle.state === "invalidated" ? " (invalid)" : ""));
    item.dataset.name = handle.name;
    lights(item, handle.param ? [] : handle.ops);
  }
  if (!list.children.length) put(list, "li", "none yet", "quiet");
}
function listCosts() {
  at("costs").replaceChildren();
  for (const each of other ? [recording, other] : [recording]) {
    if (other) put(at("costs"), "h2", each.source);
    listNests(put(at("costs"), "div", ""), each);
  }
}
function listNests(list, from) {
  const current = step ? from.steps[step - 1] : null, all = from.costs(step);
  const changed = new Set(current ? current.nests.map(nest => nest[0]) : []);
  for (const [op, summary, share, loops] of [...all.filter(nest => changed.has(nest[0])), ...all.filter(nest => !changed.has(nest[0]))]) {
    const nest = put(list, "details", "", changed.has(op) ? "changed-nest" : "");
    nest.open = list.children.length < 4;
    const head = put(nest, "summary", "");
    if (share) {
      const meter = put(head, "meter", "");
      meter.value = Math.min(1, share);
      meter.title = "share of the roof";
    }
    put(head, "b", " %" + op);
    put(head, "span", " " + summary);
    lights(head, [op]);
    const table = put(nest, "table", "");
    for (const [name, kind, depth, trips, runs, bytes, cache] of loops) {
      const row = put(table, "tr", "");
      put(row, "td", "  ".repeat(depth) + kind.replace("scf.", "").replace("linalg.", ""), "loop");
      put(row, "td", trips + (runs > 1 ? " × " + runs : ""));
      put(row, "td", bytes);
      put(row, "td", cache, cache);
      lights(row, [name]);
    }
  }
  if (!list.children.length) put(list, "p", "no loop nest", "quiet");
}
function hover(op) {
  const names = [];
  for (const item of at("handles").children) {
    const holds = op && op !== "-" && (item.dataset.ops || "").split(" ").includes(op);
    item.classList.toggle("lit", Boolean(holds));
    if (holds) names.push(item.dataset.name);
  }
  const made = recording.maker(op);
  at("about").textContent = !op || op === "-" ? "Point at an op: which step made it, which handles hold it." :
    "%" + op + ": " + (made && made <= step ? "made by step " + made : "of the payload") + (names.length ? ", held by " + names.join(", ") : "");
}
function mark(kind, sentence, cause, ops) {
  const item = put(at("marks"), "li", "", kind.replaceAll(" ", "-"));
  put(item, "b", kind ? kind + ": " : "");
  put(item, "span", sentence + (ops.length ? " (%" + ops.join(", %") + ")" : ""));
  if (cause) {
    const button = put(item, "button", "see step " + cause + " (c)", "cause");
    button.addEventListener("click", () => show(cause));
  }
}
function show(number) {
  const most = Math.max(recording.steps.length, other ? other.steps.length : 0);
  step = Math.max(0, Math.min(number, most));
  const current = step ? recording.steps[step - 1] : null;
  at("slider").max = most;
  at("slider").value = step;
  at("count").textContent = step + " of " + most;
  at("op").textContent = current ? current.op : step ? "(ended)" : "before the first step";
  at("where").textContent = current ? (current.line ? "line " + current.line : "") + " in " + current.path.join(" › ")
    + (current.changes.length ? "" : " · the payload is as it was") : "";
  at("marks").replaceChildren();
  if (current) for (const [kind, sentence, cause, ...ops] of current.marks) mark(kind, sentence, cause, ops);
  if (differs && step === differs) mark("first difference", "up to here both do the same", 0, []);
  if (step >= recording.steps.length) {
    for (const note of recording.notes) mark("", note, 0, []);
    if (recording.message && !(current && current.marks.length)) mark("failed", recording.message, 0, []);
  }
  for (const row of at("script").querySelectorAll(".now")) row.classList.remove("now");
  const row = current && current.line ? at("script").children[current.line - 1] : null;
  if (row) { row.classList.add("now"); row.scrollIntoView({ block: "nearest" }); }
  refresh();
  if (current && !current.changes.length) pane.toOp([...current.marks.flatMap(mark => mark.slice(3)), ...current.handles.flatMap(each => each.slice(4))]);
  listHandles();
  listCosts();
  hover("");
}
function refresh() {
  pane.show(recording.rows(Math.min(step, recording.steps.length)));
  if (beside) {
    beside.show(other.rows(Math.min(step, other.steps.length)));
    const its = other.steps[step - 1];
    at("its").textContent = other.source + ": " + (its ? its.op : step ? "(ended)" : "before the first step");
  }
}
function nextMark() {
  const next = recording.steps.findIndex((each, i) => i >= step && each.marks.length);
  show(next >= 0 ? next + 1 : differs > step ? differs : recording.steps.length);
}
at("title").textContent = data.payload;
at("from").textContent = data.source + (other ? " beside " + other.source : "");
document.title = "Schedule, step by step";
const stepsOf = new Map();
data.steps.forEach((each, i) => { if (each.line) stepsOf.set(each.line, [...(stepsOf.get(each.line) || []), i + 1]); });
const serious = each => each.marks.some(mark => mark[0] !== "no difference");
const markedLines = new Map();
for (const each of data.steps) if (each.marks.length) markedLines.set(each.line, markedLines.get(each.line) === "marked" || serious(each) ? "marked" : "idle");
data.script.forEach((line, i) => {
  const row = put(at("script"), "div", String(i + 1).padStart(4) + "  " + line, markedLines.get(i + 1) || "");
  if (/^\s*\/\//.test(line)) row.classList.add("quiet");
  if (!stepsOf.has(i + 1)) return;
  row.classList.add("step");
  row.addEventListener("click", () => { const all = stepsOf.get(i + 1); show(all.find(each => each > step) || all[0]); });
});
if (data.variants.length) {
  at("whatif").hidden = false;
  put(at("variants"), "option", "as it is");
  for (const each of data.variants) put(at("variants"), "option", each.label + (each.message ? " (fails)" : each.same ? " (the same in the end)" : ""));
  at("variants").addEventListener("change", event => {
    const chosen = data.variants[event.target.selectedIndex - 1];
    recording = chosen ? new Recording(data, [...data.steps.slice(0, chosen.first - 1), ...chosen.steps], chosen.message) : base;
    document.body.classList.toggle("changed", Boolean(chosen));
    show(chosen ? chosen.first : step);
    event.target.blur();
  });
}
if (differs) { at("difference").hidden = false; at("difference").addEventListener("click", () => show(differs)); }
at("slider").addEventListener("input", event => show(Number(event.target.value)));
at("back").addEventListener("click", () => show(step - 1));
at("next").addEventListener("click", () => show(step + 1));
at("marked").addEventListener("click", nextMark);
at("fold").addEventListener("click", event => { folded = !folded; event.target.setAttribute("aria-pressed", folded); refresh(); });
at("search").addEventListener("keydown", event => {
  if (event.key === "Enter" && at("search").value && !pane.search(at("search").value) && beside) beside.search(at("search").value);
  if (event.key === "Escape") at("search").blur();
  event.stopPropagation();
});
addEventListener("resize", () => { pane.paint(); if (beside) beside.paint(); });
addEventListener("keydown", event => {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { ArrowRight: step + 1, ArrowLeft: step - 1, Home: 0, End: recording.steps.length }[event.key];
  if (to !== undefined) { event.preventDefault(); show(to); }
  if (event.key === "m") nextMark();
  if (event.key === "f") at("fold").click();
  if (event.key === "c") { const cause = at("marks").querySelector(".cause"); if (cause) cause.click(); }
  if (event.key === "/") { event.preventDefault(); at("search").focus(); }
});
show(0);
