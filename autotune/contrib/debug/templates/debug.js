"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const LINE = 18, EVERY = 25;
const first = { lines: data.lines.split("\n"), ops: data.ops.split(" ") };
const kept = new Map([[0, first]]);
let step = 0, view = [], folded = false, lit = new Set(), found = -1;

function put(parent, tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}
function applied(before, changes) {
  const lines = [], ops = [];
  let from = 0;
  for (const [start, removed, count, added, names] of changes) {
    for (; from < start; from++) { lines.push(before.lines[from]); ops.push(before.ops[from]); }
    if (count) { for (const line of added.split("\n")) lines.push(line); for (const op of names.split(" ")) ops.push(op); }
    from = start + removed;
  }
  for (; from < before.lines.length; from++) { lines.push(before.lines[from]); ops.push(before.ops[from]); }
  return { lines, ops };
}
function after(number) {
  let near = number;
  while (!kept.has(near)) near--;
  let text = kept.get(near);
  while (near < number) {
    text = applied(text, data.steps[near].changes);
    near++;
    if (near % EVERY === 0) kept.set(near, text);
  }
  return text;
}
function shown() {
  if (!step) return first.lines.map((line, i) => [line, first.ops[i], ""]);
  const before = after(step - 1), rows = [];
  let from = 0;
  for (const [start, removed, count, added, names] of data.steps[step - 1].changes) {
    for (; from < start; from++) rows.push([before.lines[from], before.ops[from], ""]);
    for (; from < start + removed; from++) rows.push([before.lines[from], before.ops[from], "del"]);
    if (count) { const ops = names.split(" "); added.split("\n").forEach((line, i) => rows.push([line, ops[i], "add"])); }
  }
  for (; from < before.lines.length; from++) rows.push([before.lines[from], before.ops[from], ""]);
  return rows;
}
function indent(line) { return line.length - line.trimStart().length; }
function foldLoops(rows) {
  const result = [];
  for (let i = 0; i < rows.length; i++) {
    result.push(rows[i]);
    if (!/scf\.for|affine\.for/.test(rows[i][0]) || !rows[i][0].endsWith("{")) continue;
    const depth = indent(rows[i][0]);
    let end = i + 1, changed = false;
    while (end < rows.length && indent(rows[end][0]) > depth) { changed = changed || rows[end][2] !== ""; end++; }
    if (!changed) { result[result.length - 1] = [rows[i][0] + " … " + (end - i - 1) + " lines", rows[i][1], rows[i][2]]; i = end - 1; }
  }
  return result;
}
function paint() {
  const box = at("payload"), seen = at("seen");
  at("all").style.height = view.length * LINE + "px";
  const begin = Math.max(0, Math.floor(box.scrollTop / LINE) - 10);
  seen.style.top = begin * LINE + "px";
  seen.replaceChildren();
  const end = Math.min(view.length, begin + Math.ceil(box.clientHeight / LINE) + 20);
  for (let i = begin; i < end; i++) {
    const [line, op, kind] = view[i];
    const row = put(seen, "div", line || " ", kind);
    if (lit.has(op)) row.classList.add("lit");
    if (i === found) row.classList.add("found");
    row.dataset.op = op;
  }
}
function handles() {
  const known = new Map();
  for (const each of data.steps.slice(0, step)) for (const [frame, name, state, param, ...ops] of each.handles) {
    const key = frame + " " + name;
    known.delete(key);
    if (state !== "out of scope") known.set(key, { name, state, param, ops });
  }
  return [...known.values()].reverse();
}
function light(ops) { lit = new Set(ops); paint(); }
function listHandles() {
  const list = at("handles");
  list.replaceChildren();
  for (const handle of handles()) {
    const what = handle.ops.map(op => handle.param ? op : "%" + op).join(", ") || "nothing";
    const item = put(list, "li", handle.name + ": " + what, handle.state === "invalidated" ? "invalid" : "");
    item.tabIndex = 0;
    item.dataset.ops = handle.param ? "" : handle.ops.join(" ");
    for (const event of ["mouseenter", "focus"]) item.addEventListener(event, () => light(handle.param ? [] : handle.ops));
    for (const event of ["mouseleave", "blur"]) item.addEventListener(event, () => light([]));
  }
}
function maker(op) {
  return data.steps.findIndex(each => each.origins.some(origin => origin.split(" ")[0] === op)) + 1;
}
function hover(op) {
  let names = [];
  for (const item of at("handles").children) {
    const holds = op !== "-" && item.dataset.ops.split(" ").includes(op);
    item.classList.toggle("lit", holds);
    if (holds) names.push(item.textContent.split(":")[0]);
  }
  const made = maker(op);
  at("about").textContent = !op || op === "-" ? "" :
    "%" + op + ": " + (made ? "made by step " + made : "of the payload") + (names.length ? ", held by " + names.join(", ") : "");
}
function show(number) {
  step = Math.max(0, Math.min(number, data.steps.length));
  const current = step ? data.steps[step - 1] : null;
  at("slider").value = step;
  at("count").textContent = step + " of " + data.steps.length;
  at("where").textContent = current ? current.op + (current.line ? ", line " + current.line : "") + " in " + current.path.join(" > ")
    + (current.changes.length ? "" : " - the payload is as it was") : "before the first step";
  at("marks").replaceChildren();
  if (current) for (const [kind, sentence, ...ops] of current.marks) put(at("marks"), "li", kind + ": " + sentence + (ops.length ? " (%" + ops.join(", %") + ")" : ""));
  if (step === data.steps.length) for (const note of [...data.notes, ...(data.message ? ["failed: " + data.message] : [])]) put(at("marks"), "li", note);
  for (const row of at("script").querySelectorAll(".now")) row.classList.remove("now");
  const row = current && current.line ? at("script").children[current.line - 1] : null;
  if (row) { row.classList.add("now"); row.scrollIntoView({ block: "nearest" }); }
  found = -1;
  refresh();
  const change = view.findIndex(each => each[2]);
  if (change >= 0) at("payload").scrollTop = Math.max(0, change * LINE - 80);
  listHandles();
  paint();
}
function refresh() { view = shown(); if (folded) view = foldLoops(view); paint(); }
function search() {
  const text = at("search").value;
  if (!text) return;
  for (let i = 1; i <= view.length; i++) {
    const place = (found + i + view.length) % view.length;
    if (view[place][0].includes(text)) { found = place; at("payload").scrollTop = Math.max(0, place * LINE - 80); paint(); return; }
  }
  found = -1;
  paint();
}
at("title").textContent = data.payload + ": " + data.source;
data.script.forEach((line, i) => put(at("script"), "div", String(i + 1).padStart(4) + "  " + line,
  data.steps.some(each => each.line === i + 1 && each.marks.length) ? "marked" : ""));
at("slider").max = data.steps.length;
at("slider").addEventListener("input", event => show(Number(event.target.value)));
at("back").addEventListener("click", () => show(step - 1));
at("next").addEventListener("click", () => show(step + 1));
at("marked").addEventListener("click", () => {
  const next = data.steps.findIndex((each, i) => i >= step && each.marks.length);
  if (next >= 0) show(next + 1);
});
at("fold").addEventListener("click", event => { folded = !folded; event.target.setAttribute("aria-pressed", folded); refresh(); });
at("search").addEventListener("keydown", event => { if (event.key === "Enter") search(); event.stopPropagation(); });
at("payload").addEventListener("scroll", paint);
at("seen").addEventListener("mouseover", event => hover(event.target.dataset.op || ""));
addEventListener("resize", paint);
addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT" && event.target.type === "search") return;
  const to = { ArrowRight: step + 1, ArrowLeft: step - 1, Home: 0, End: data.steps.length }[event.key];
  if (to !== undefined) { event.preventDefault(); show(to); }
  if (event.key === "/") { event.preventDefault(); at("search").focus(); }
});
show(0);
